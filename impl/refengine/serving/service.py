"""State that the endpoints share: the engine once it has started, the drain, metrics, clocks."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from ..base.clock import Clock, monotonic
from ..engine import Health, ServedEngine
from .http import ApiError
from .metrics import Metrics, Samples

_STARTING = Health(alive=True, ready=False, progressing=True)
DRAIN_OVER = (
    "the server was told to end, and the {seconds:g} s that it gives to open requests are over"
)
DRAIN_CUT_SHORT = (
    "the server was told to end, and told again: open requests were given no more time"
)


class Drain:
    """Drain of a server that was asked to end: open requests finish, no new one is taken (E6).

    It counts the requests that are being answered. Any thread may call any method.

    Args:
        seconds: time of open requests from `begin` on, as stated to clients.
        idle: called, once or several times, when the drain has begun and no request is open.
        clock: monotonic seconds.
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
        self._open: dict[object, Callable[[ApiError], None]] = {}
        self._ends: float | None = None
        self._cut: ApiError | None = None

    @property
    def has_begun(self) -> bool:
        """True if new requests are refused."""
        return self._ends is not None

    @property
    def open(self) -> int:
        """Number of requests that are being answered."""
        return len(self._open)

    def begin(self) -> None:
        """Refuse new requests from now on. Idempotent."""
        with self._lock:
            if self._ends is None:
                self._ends = self._clock() + self.seconds
            quiet = not self._open
        if quiet:
            self._idle()

    def cut(self, cause: str) -> None:
        """End open requests with a 503 or an error event that gives the cause (SPEC E5)."""
        self.begin()
        refused = ApiError(503, cause, code="drain_over", retry_after=self._seconds_left())
        with self._lock:
            self._cut = self._cut or refused
            ends = list(self._open.values())
        for end in ends:
            end(refused)

    def check(self) -> None:
        """Raise ApiError if new requests are refused."""
        if self.has_begun:
            reason = (
                f"the server was told to end: it drains, which takes {self.seconds:g} s at most, "
                "and takes no new request"
            )
            raise ApiError(503, reason, code="draining", retry_after=self._seconds_left())

    @contextlib.contextmanager
    def answering(self, end: Callable[[ApiError], None]) -> Generator[None]:
        """Count one request as open until the context is left; `end` is called if it is cut off."""
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

    def _seconds_left(self) -> int:
        """Return whole seconds, at least 1, until the server is gone and another may be asked."""
        ends = self._ends
        return 1 if ends is None else max(1, math.ceil(ends - self._clock()))


class Service:
    """State of the endpoints; until `engine` is set, they answer that the engine is starting.

    Args:
        totals: samples of all processes that serve, if there are several.
        beside: further fields of `/health`.
    """

    def __init__(
        self,
        model: str = "refengine",
        *,
        drain: Drain | None = None,
        totals: Callable[[], Samples] | None = None,
        beside: Callable[[], dict[str, Any]] = dict,
        clock: Clock = monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.model = model
        self.engine: ServedEngine | None = None
        self.drain = drain or Drain()
        self.metrics = Metrics(lambda: self.engine, totals)
        self._beside = beside
        self.clock, self.wall = clock, wall
        self.began = int(wall())

    def require_engine(self) -> ServedEngine:
        """Return the engine; raise ApiError while there is none, or during the drain."""
        self.drain.check()
        if self.engine is None:
            raise ApiError(503, "the engine is starting; /health/ready tells when", code="starting")
        return self.engine

    def health(self) -> Health:
        """Return the engine's health; while the server drains it is not ready."""
        engine = self.engine
        health = _STARTING if engine is None else engine.health()
        return replace(health, ready=False) if self.drain.has_begun else health

    def about(self) -> dict[str, Any]:
        """Return the fields of `/health` about the server itself."""
        drain = {"drain": self.drain.seconds, "draining": self.drain.has_begun}
        return drain | self._beside()
