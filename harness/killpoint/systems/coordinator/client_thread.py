"""One link to a coordinator, kept by a thread of its own: it hears, and gives signs of life."""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from killpoint.history.log import Log
from killpoint.runner.observe import scheduling_jitter
from killpoint.systems.coordinator.engine_stub import Stepping
from killpoint.targets.coordination import Published, Started
from killpoint.targets.coordinator_protocol import Heard, RunsCoordinator

_TURN = 0.02
"""Seconds that it listens before it looks whether there is something to say."""
_BEATS = 0.25
"""Between two signs of life."""
_AT_ONCE = 64
"""Words that it takes before it does anything else."""


class LinkKeeper:
    """What an engine or a front end does all the time, whatever else it is told."""

    def __init__(
        self,
        target: RunsCoordinator,
        make: Callable[[], Any],
        stepping: Stepping | None,
        log: Log,
    ) -> None:
        """``stepping``: an engine's half of the protocol; None for a front end.

        A word that cannot be understood is logged as ``unheard``, and the next one waited for.

        Raises:
            Exception: whatever the making of the link raised.
        """
        self.stepping = stepping
        self.lost = False
        """Whether the coordinator counts as gone."""
        self.last: Published | None = None
        self.words = 0
        """How many words of the coordinator's it has heard."""
        self._target = target
        self._log = log
        self._todo = deque[tuple[Future[Any], Callable[[Any], Any]]]()
        self._over = False
        self._changed = threading.Condition()
        made = Future[None]()
        self._thread = threading.Thread(target=self._keep, args=(make, made), daemon=True)
        self._thread.start()
        made.result()
        if stepping is None:  # a front end, whose words have a time to be heard by
            scheduling_jitter.watch(log, lambda: self._over)

    def do(self, act: Callable[[Any], Any]) -> Any:
        """Do something with the link, in its own thread; what that gives, or raises."""
        done = Future[Any]()
        self._todo.append((done, act))
        return done.result()

    def until(self, there: Callable[[], bool], within: float) -> bool:
        """Whether it comes to that in so many seconds; looked at after each word."""
        with self._changed:
            return self._changed.wait_for(there, within)

    def close(self) -> None:
        """Leave."""
        self._over = True
        self._thread.join()

    def listen(self, link: Any, seconds: float) -> None:
        """Take what is there, or the first that comes in that time. In the link's own thread."""
        for _ in range(_AT_ONCE):
            heard = self._target.link_hears(link, seconds)
            if heard is None:
                break
            self._take(heard)
            seconds = 0.0
        lost = self._target.link_lost(link)
        if lost != self.lost:
            self._log.write("coordinator-lost" if lost else "coordinator-found")
            self.lost = lost
            self._notify()

    def tell_stepped(self) -> None:
        """Log the requests that have come to be in a wave."""
        if self.stepping is not None:
            for number in self.stepping.stepped():
                self._log.write("stepped", n=number, wave=self.stepping.wave)

    def _keep(self, make: Callable[[], Any], made: Future[None]) -> None:
        try:
            link = make()
        except BaseException as error:
            made.set_exception(error)
            return
        made.set_result(None)
        beat = 0.0
        try:
            while not self._over:
                self._obey(link)
                try:
                    self.listen(link, _TURN)
                except Exception as error:
                    self._log.write("unheard", error=f"{type(error).__name__}: {error}")
                    select.select([], [], [], _TURN)
                if time.monotonic() - beat >= _BEATS:
                    beat = time.monotonic()
                    self._target.link_beats(link)
        finally:
            self._target.link_close(link)

    def _obey(self, link: Any) -> None:
        while self._todo:
            done, act = self._todo.popleft()
            try:
                done.set_result(act(link))
            except BaseException as error:
                done.set_exception(error)
            self._notify()

    def _take(self, heard: Heard) -> None:
        if isinstance(heard, Started):
            about = {"members": heard.members, "excluded": heard.excluded}
            self._log.write("heard", what="start", wave=heard.wave, **about)
            if self.stepping is not None:
                self.stepping.hear(heard)
                self.tell_stepped()
        else:
            self.last = heard
            about = {"running": heard.running, "counts": heard.counts}
            self._log.write("heard", what="state", wave=heard.wave, **about)
        self.words += 1
        self._notify()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
