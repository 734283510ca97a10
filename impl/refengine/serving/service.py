"""What the endpoints share: the engine once it is there, the model's name, metrics, clocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..clock import Clock, monotonic
from ..engine import Health, ServedEngine
from .draining import Drain
from .metrics import Metrics, Samples
from .refused import Refused

_STARTING = Health(alive=True, ready=False, progressing=True)


class Service:
    """It answers from the first moment on; until `engine` is set, that the engine is starting.

    Args:
        of_all: for one of several processes that serve, what all of them have measured.
        beside: what else `/health` says of the server.
    """

    def __init__(
        self,
        model: str = "refengine",
        *,
        drain: Drain | None = None,
        of_all: Callable[[], Samples] | None = None,
        beside: Callable[[], dict[str, Any]] = dict,
        clock: Clock = monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.model = model
        self.engine: ServedEngine | None = None
        self.drain = drain or Drain()
        self.metrics = Metrics(lambda: self.engine, of_all)
        self._beside = beside
        self.clock, self.wall = clock, wall
        self.began = int(wall())

    def running(self) -> ServedEngine:
        """The engine; Refused while there is none, or it takes nothing new."""
        self.drain.check()
        if self.engine is None:
            raise Refused(503, "the engine is starting; /health/ready tells when", code="starting")
        return self.engine

    def health(self) -> Health:
        """The engine's; while the server drains it is not ready."""
        engine = self.engine
        health = _STARTING if engine is None else engine.health()
        return replace(health, ready=False) if self.drain.has_begun else health

    def about(self) -> dict[str, Any]:
        """What `/health` says of the server beside the engine."""
        drain = {"drain": self.drain.seconds, "draining": self.drain.has_begun}
        return drain | self._beside()
