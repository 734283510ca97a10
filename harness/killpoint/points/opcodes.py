"""Opcode points: every instruction of the target's own code that an operation executes, in order.

Between two of them everything is told apart that Python itself tells apart: a lock taken and the
block entered, a value made and stored. One instruction may still copy a gigabyte.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType

from killpoint.points.tracing import Monitored, OnLine, Traced, traced


def opcodes(is_own: Callable[[CodeType], bool], on_opcode: OnLine) -> Traced | Monitored:
    """A context in which ``on_opcode(code, line)`` runs before each instruction of the target's.

    What it raises appears there.
    """
    return traced(is_own, on_opcode, opcodes=True)
