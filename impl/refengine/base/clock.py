"""The monotonic clock, as a seam: a test may bring its own; deadlines of calls."""

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds from any fixed instant; never goes back."""

monotonic: Clock = time.monotonic


class Deadline:
    """The end of a call's time, `timeout` seconds from now; None: there is none."""

    def __init__(self, timeout: float | None, clock: Clock) -> None:
        self._clock = clock
        self._end = None if timeout is None else clock() + timeout

    def remaining(self) -> float | None:
        """Seconds left, negative once it has passed; None without a deadline."""
        return None if self._end is None else self._end - self._clock()
