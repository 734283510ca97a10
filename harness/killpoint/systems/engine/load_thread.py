"""Thread that keeps an engine under steady load, some of whose requests are cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from killpoint.history.log import Log
from killpoint.scenario import Load
from killpoint.systems.engine.load import EngineRequest, asked, different
from killpoint.systems.engine.request_thread import OpenRequest, RequestThread
from killpoint.targets.engine_protocol import EngineShape, HasEngine


class LoadThread(RequestThread):
    """Submits one request after another, whatever becomes of the earlier ones."""

    def __init__(
        self,
        target: HasEngine,
        end: Any,
        log: Log,
        load: Load,
        shape: EngineShape,
        seed: int,
        *,
        word: Callable[[Exception], str],
        tell: Callable[[dict[str, int]], None],
    ) -> None:
        """See the base class."""
        super().__init__(target, end, log, look=load.look, word=word, tell=tell)
        self._load, self._shape, self._seed = load, shape, seed
        self._different = different(load, shape, seed)
        self._enough = threading.Event()
        self._due = time.monotonic()

    def known(self) -> Sequence[EngineRequest]:
        """See the base class."""
        return self._different

    def start(self) -> None:
        """See the base class."""
        self._due = time.monotonic()
        super().start()

    def submit_due(self, now: float) -> None:
        """See the base class."""
        while now >= self._due and not self._enough.is_set():
            for _ in range(self._load.together):
                n = self._asked
                what = asked(self._load, self._shape, self._different, self._seed, n)
                self.ask(what, self._load.within)
            self._due += self._load.together / self._load.rate

    def enough(self) -> None:
        """See the base class."""
        self._enough.set()

    def idle(self) -> bool:
        """See the base class."""
        return not self.open

    def after(self, one: OpenRequest) -> None:
        """See the base class."""
        every = self._load.cancel_every
        if every and one.tokens and not one.cancelled and one.n % every == every - 1:
            self.cancel(one)

    def ended(self, one: OpenRequest) -> None:
        """See the base class: the load goes on whatever becomes of one."""
