"""The monotonic clock, as a seam: a test may bring its own; deadlines of calls."""

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds from any fixed instant; never goes back."""

monotonic: Clock = time.monotonic


LONGEST_POLL = 2_000_000.0
"""Seconds of the longest wait in the kernel: its milliseconds must fit in 31 bits (24.8 days)."""


def poll_milliseconds(seconds: float) -> float:
    """Return the milliseconds that a poll is to wait for so many seconds: none if they are over.

    A longer wait than the kernel's longest ends early: whoever has a loop looks again.
    """
    return max(0.0, min(seconds, LONGEST_POLL)) * 1000


class Deadline:
    """The end of a call's time, `timeout` seconds from now; None: there is none."""

    def __init__(self, timeout: float | None, clock: Clock) -> None:
        self._clock = clock
        self._end = None if timeout is None else clock() + timeout

    def remaining(self) -> float | None:
        """Seconds left, negative once it has passed; None without a deadline."""
        return None if self._end is None else self._end - self._clock()
