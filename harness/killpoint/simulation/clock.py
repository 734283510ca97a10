"""Stands in for the module ``time``: the clocks are the world's, and sleeping is waiting there."""

from __future__ import annotations

import time
from typing import Any

from killpoint.seams import World

_EPOCH = 1_600_000_000.0
"""What the wall clock shows at the beginning."""


class Clock:
    """All clocks run alike; every other name is the module's own."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        """Simulated seconds."""
        return self._world.now

    def perf_counter(self) -> float:
        """Simulated seconds."""
        return self._world.now

    def monotonic_ns(self) -> int:
        """Simulated nanoseconds."""
        return round(self._world.now * 1e9)

    def time(self) -> float:
        """The simulated wall clock."""
        return _EPOCH + self._world.now

    def sleep(self, seconds: float) -> None:
        """Sleep in the world; no time at all is a look that found nothing."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if seconds == 0:
            self._world.spin("its next look")
        else:
            self._world.wait(_never, seconds, f"{seconds:g} s to pass")

    def sched_yield(self) -> None:
        """Let others run."""
        self._world.spin("its next look")

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def _never() -> bool:
    return False
