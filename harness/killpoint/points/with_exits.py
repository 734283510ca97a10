"""Instructions that leave a ``with`` block, where only an injected fault can raise.

The interpreter checks for signals after a call and at a loop's end, and between the last
instruction of the block and the call of ``__exit__`` there is neither; nor does the block's own
protection reach that far. Only the harness could raise an exception there, and no code survives it.
"""

from __future__ import annotations

import dis
import functools
from types import CodeType

_BEFORE = ("NOP", "SWAP")
_CALLS = ("PRECALL", "CALL")


def leaves_with(code: CodeType, offset: int) -> bool:
    """Return whether an instruction belongs to the leaving of a ``with`` block."""
    return offset in _leaving(code)


@functools.cache
def _leaving(code: CodeType) -> frozenset[int]:
    """Return the offsets from each block's end up to the call of ``__exit__``, for 3.11 to 3.13."""
    steps = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    found: set[int] = set()
    for at, step in enumerate(steps):
        if step.opname == "WITH_EXCEPT_START":
            found |= {steps[at - 1].offset, step.offset}
        nothing = steps[at : at + 3]
        if len(nothing) < 3 or any(not _is_none(each) for each in nothing):
            continue
        last = at + 3
        while last < len(steps) and steps[last].opname in _CALLS and steps[last].arg == 2:
            last += 1
        if last > at + 3:
            first = at
            while first and steps[first - 1].opname in _BEFORE:
                first -= 1
            found |= {each.offset for each in steps[first:last]}
    return frozenset(found)


def _is_none(step: dis.Instruction) -> bool:
    return step.opname == "LOAD_CONST" and step.argval is None
