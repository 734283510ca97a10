"""Drain: a server that is told to end answers what is open, and takes nothing new (SPEC E6)."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Generator

from ..clock import Clock, monotonic
from .refused import Refused

OVER = "the server was told to end, and the {seconds:g} s that it gives to open requests are over"
AGAIN = "the server was told to end, and told again: open requests were given no more time"


class Drain:
    """Counts the requests that are being answered. Any thread may call anything.

    Args:
        seconds: that open requests have from `begin` on, as stated to clients.
        idle: called, once or several times, when the drain has begun and no request is open.
    """

    def __init__(
        self,
        seconds: float = 10.0,
        idle: Callable[[], None] = lambda: None,
        clock: Clock = monotonic,
    ) -> None:
        self.seconds = seconds
        self._idle, self._clock = idle, clock
        self._lock = threading.Lock()
        self._open: dict[object, Callable[[Refused], None]] = {}
        self._ends: float | None = None
        self._cut: Refused | None = None

    @property
    def has_begun(self) -> bool:
        """Whether new requests are refused."""
        return self._ends is not None

    @property
    def open(self) -> int:
        """Requests that are being answered."""
        return len(self._open)

    def begin(self) -> None:
        """Take nothing new from now on. Idempotent."""
        with self._lock:
            if self._ends is None:
                self._ends = self._clock() + self.seconds
            quiet = not self._open
        if quiet:
            self._idle()

    def cut(self, cause: str) -> None:
        """End what is open, with a 503 or an error event that gives the cause (SPEC E5)."""
        self.begin()
        refused = Refused(503, cause, code="drain_over", again_in=self._left())
        with self._lock:
            self._cut = self._cut or refused
            ends = list(self._open.values())
        for end in ends:
            end(refused)

    def check(self) -> None:
        """Refused once new requests are."""
        if self.has_begun:
            reason = (
                f"the server was told to end: it drains, which takes {self.seconds:g} s at most, "
                "and takes no new request"
            )
            raise Refused(503, reason, code="draining", again_in=self._left())

    @contextlib.contextmanager
    def answering(self, end: Callable[[Refused], None]) -> Generator[None]:
        """One request is open until the context is left; `end` is called if it is cut off."""
        token = object()
        with self._lock:
            self._open[token] = end
            cut = self._cut
        if cut is not None:
            end(cut)
        try:
            yield
        finally:
            with self._lock:
                del self._open[token]
                idle = self.has_begun and not self._open
            if idle:
                self._idle()

    def _left(self) -> int:
        """Whole seconds, 1 at least, until the server is gone and another may be asked."""
        ends = self._ends
        return 1 if ends is None else max(1, math.ceil(ends - self._clock()))
