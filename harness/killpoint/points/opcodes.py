"""Opcode points: every instruction of the target's own code that an operation executes, in order.

Opcode points separate all steps that Python itself separates: a lock acquired and the block
entered, a value made and stored. One instruction may still copy a gigabyte.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType

from killpoint.points.tracing import Monitored, OnLine, Traced, traced


def opcodes(is_own: Callable[[CodeType], bool], on_opcode: OnLine) -> Traced | Monitored:
    """Return a context in which ``on_opcode(code, line)`` runs before each of the target's opcodes.

    An exception from ``on_opcode`` is raised in the target's code there.
    """
    return traced(is_own, on_opcode, opcodes=True)
