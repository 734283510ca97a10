"""Line points: every line of the target's own code that an operation executes, in order."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType

from killpoint.points.tracing import Monitored, OnLine, Traced, traced


def lines(is_own: Callable[[CodeType], bool], on_line: OnLine) -> Traced | Monitored:
    """Return a context in which ``on_line(code, line, offset)`` runs before each target line.

    An exception from ``on_line`` is raised in the target's code at that line.
    """
    return traced(is_own, on_line, opcodes=False)
