"""The wall clock of one process, moved while code runs in it."""

from __future__ import annotations

import time
from typing import Any

_real, _real_ns = time.time, time.time_ns
_moved = 0.0


def jump(seconds: float) -> float:
    """Move ``time.time`` and ``time.time_ns`` by some seconds; no other clock moves.

    Only code that looks the function up in its module each time is reached, as Python code does
    unless it has kept the function for itself.

    Returns:
        Seconds by which a caller of ``time.time`` saw it move.
    """
    global _moved
    before, began = time.time(), time.monotonic()
    _moved += seconds
    clock: Any = time
    clock.time, clock.time_ns = _now, _now_ns
    return time.time() - before - (time.monotonic() - began)


def _now() -> float:
    return _real() + _moved


def _now_ns() -> int:
    return _real_ns() + int(_moved * 1e9)
