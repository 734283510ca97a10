"""Thread that owns one link to a coordinator: it receives, and sends heartbeats."""

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
from killpoint.targets.coordinator_messages import Published, Started
from killpoint.targets.coordinator_protocol import Heard, RunsCoordinator

_TURN = 0.02
"""Seconds of one receive, after which it looks for queued actions."""
_BEATS = 0.25
"""Seconds between two heartbeats."""
_AT_ONCE = 64
"""Messages that it takes before it does anything else."""


class LinkKeeper:
    """Link of an engine or a front end, served all the time whatever orders come."""

    def __init__(
        self,
        target: RunsCoordinator,
        make: Callable[[], Any],
        stepping: Stepping | None,
        log: Log,
    ) -> None:
        """``stepping``: an engine's half of the protocol; None for a front end.

        A message that cannot be decoded is logged as ``unheard``, and the next one awaited.

        Raises:
            Exception: the link could not be made.
        """
        self.stepping = stepping
        self.lost = False
        """True if the coordinator counts as gone."""
        self.last: Published | None = None
        self.counts: tuple[tuple[int, int] | None, ...] = ()
        """Counts of all ranks as they were published last."""
        self.words = 0
        """Number of messages received from the coordinator."""
        self._target = target
        self._log = log
        self._todo = deque[tuple[Future[Any], Callable[[Any], Any]]]()
        self._over = False
        self._changed = threading.Condition()
        made = Future[None]()
        self._thread = threading.Thread(target=self._keep, args=(make, made), daemon=True)
        self._thread.start()
        made.result()
        if stepping is None:  # a front end, whose messages have a deadline
            scheduling_jitter.watch(log, lambda: self._over)

    def do(self, act: Callable[[Any], Any]) -> Any:
        """Run an action on the link in its own thread; return its result, or raise its error."""
        done = Future[Any]()
        self._todo.append((done, act))
        return done.result()

    def until(self, there: Callable[[], bool], within: float) -> bool:
        """Return whether a condition holds within so many seconds; checked after each message."""
        with self._changed:
            return self._changed.wait_for(there, within)

    def close(self) -> None:
        """Stop the thread, which closes the link."""
        self._over = True
        self._thread.join()

    def listen(self, link: Any, seconds: float) -> None:
        """Receive the pending messages, or the first within that time. In the link's own thread."""
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
            self.counts = self.counts if heard.counts is None else heard.counts
            about = {"running": heard.running, "counts": heard.counts}
            self._log.write("heard", what="state", wave=heard.wave, **about)
        self.words += 1
        self._notify()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
