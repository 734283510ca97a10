"""The monotonic clock, as a seam: a test may bring its own."""

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds from any fixed instant; never goes back."""

monotonic: Clock = time.monotonic
