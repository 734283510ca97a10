"""What the endpoints share: the engine once it is there, the model's name, metrics, clocks."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..clock import Clock, monotonic
from ..engine import Engine
from .metrics import Metrics
from .refused import Refused


class Service:
    """It answers from the first moment on; until `engine` is set, that the engine is starting."""

    def __init__(
        self,
        model: str = "refengine",
        *,
        clock: Clock = monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.model = model
        self.engine: Engine | None = None
        self.metrics = Metrics(lambda: self.engine)
        self.clock, self.wall = clock, wall
        self.began = int(wall())

    def running(self) -> Engine:
        """The engine; Refused while there is none."""
        if self.engine is None:
            raise Refused(503, "the engine is starting; /health/ready tells when", code="starting")
        return self.engine
