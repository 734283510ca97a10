"""Thread of clients whose requests come one after another, several clients at a time."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from typing import Any

from killpoint.history.log import Log
from killpoint.systems.engine.burst import Requests
from killpoint.systems.engine.load import EngineRequest
from killpoint.systems.engine.request_thread import OpenRequest, RequestThread
from killpoint.systems.engine.steps import Ask, Burst, Client
from killpoint.targets.engine_protocol import EngineShape, HasEngine, NamesRequests


class _Conversation:
    """A client, and how far it has come."""

    def __init__(self, client: Client, within: float, due: float) -> None:
        self.client, self.within, self.due = client, within, due
        self.next = 0
        self.waits = False

    @property
    def over(self) -> bool:
        """True if it asks no more, and has had its last end."""
        return self.next == len(self.client.asks) and not self.waits


class BurstThread(RequestThread):
    """Submits each client's next request at once when its last one has ended."""

    tick = 0.0005
    """Short: an id is to be used again while the engine is still busy with its last request."""

    def __init__(
        self,
        target: HasEngine,
        end: Any,
        log: Log,
        shape: EngineShape,
        seed: int,
        *,
        look: float,
        word: Callable[[Exception], str],
        tell: Callable[[dict[str, int]], None],
    ) -> None:
        """See the base class."""
        super().__init__(target, end, log, look=look, word=word, tell=tell)
        self._requests = Requests(shape, seed)
        self._bursts: queue.SimpleQueue[Burst] = queue.SimpleQueue()
        self._promised = 0  # bursts that were handed over
        self._begun = 0
        self._told: set[int] = set()  # keys of requests of which tokens are to be compared
        self._conversations: list[_Conversation] = []
        self._of: dict[int, tuple[_Conversation, Ask]] = {}  # by the request's number
        self._by_name = target if isinstance(target, NamesRequests) else None

    def begin(self, burst: Burst) -> None:
        """Have these clients begin; their requests are known from now on."""
        for client in burst.clients:
            for ask in client.asks:
                self._requests.of(ask)
        self._promised += 1
        self._bursts.put(burst)

    def known(self) -> Sequence[EngineRequest]:
        """See the base class: without those that were all cancelled before they had a token."""
        return [each for each in self._requests.known() if each.key in self._told]

    def submit_due(self, now: float) -> None:
        """See the base class; health is looked at as soon as an idle engine has a request again."""
        while not self._bursts.empty():
            burst = self._bursts.get()
            self._conversations += [
                _Conversation(client, burst.within, now + client.at) for client in burst.clients
            ]
            self._begun += 1
        was_idle = not self.open
        for each in [one for one in self._conversations if one.due <= now]:
            if not each.waits and each.next < len(each.client.asks):
                self._ask_next(each)
                if was_idle and self.open:
                    self.look()
                    was_idle = False
        self._conversations = [each for each in self._conversations if not each.over]

    def _ask_next(self, each: _Conversation) -> None:
        ask = each.client.asks[each.next]
        each.next += 1
        each.waits = True
        self._of[self._asked] = each, ask
        one = self.ask(self._requests.of(ask), each.within, each.client.id)
        if one in self.open:
            self.after(one)

    def submit(self, what: EngineRequest, id: str) -> Any:
        """See the base class."""
        if not id or self._by_name is None:
            return super().submit(what, id)
        return self._by_name.engine_submit_as(self.end, id, what.prompt, what.max_tokens)

    def enough(self) -> None:
        """See the base class: clients that have begun ask for all that they are to."""

    def idle(self) -> bool:
        """See the base class."""
        return self._begun == self._promised and not self._conversations and not self.open

    def after(self, one: OpenRequest) -> None:
        """See the base class."""
        _, ask = self._of[one.n]
        late = ask.cancel_after is not None and time.monotonic() >= one.asked + ask.cancel_after
        enough = ask.cancel_at is not None and len(one.tokens) >= ask.cancel_at
        if not one.cancelled and (late or enough):
            self.cancel(one)

    def ended(self, one: OpenRequest) -> None:
        """See the base class."""
        conversation, ask = self._of.pop(one.n)
        conversation.waits = False
        if one.tokens or not one.cancelled:
            self._told.add(one.what.key)
        if ask.cancel_ended and one.stream is not None:
            self.log.write("cancelled-ended", n=one.n)
            self.target.engine_cancel(self.end, one.stream)
