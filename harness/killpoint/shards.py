"""Cases shared out to several machines so that all end at about the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from killpoint.cases.case import Case
from killpoint.durations import Expected


def shard(
    cases: Sequence[Case], expected: Mapping[str, Expected], part: int, parts: int
) -> list[Case]:
    """The cases of one part; every case is in exactly one, and who asks does not matter.

    The longest is given out first, to whoever has least to do so far.

    Args:
        cases: what all parts do together, each once.
        expected: what each of them is expected to take.
        part: from 1 to ``parts``.
    """
    loads = [0.0] * parts
    mine: set[str] = set()
    for case in sorted(cases, key=lambda case: (-expected[case.id].cost, case.id)):
        least = loads.index(min(loads))
        loads[least] += expected[case.id].cost
        if least == part - 1:
            mine.add(case.id)
    return [case for case in cases if case.id in mine]
