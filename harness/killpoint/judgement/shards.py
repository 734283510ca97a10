"""Cases shared out to several machines so that all end at about the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from killpoint.case import Case
from killpoint.durations import Expected


def shard(
    cases: Sequence[Case], expected: Mapping[str, Expected], part: int, parts: int
) -> list[Case]:
    """Return the cases of one part; every case is in exactly one, whichever machine asks.

    The longest is given out first, to the part with the least to do so far. Cases that judge one
    play are one machine's, which plays it once for them all.

    Args:
        cases: what all parts do together, each once.
        expected: what each of them is expected to take.
        part: from 1 to ``parts``.
    """
    costs: dict[str, float] = {}
    for case in cases:
        costs[_share(case)] = costs.get(_share(case), 0.0) + expected[case.id].cost
    loads = [0.0] * parts
    mine: set[str] = set()
    for share in sorted(costs, key=lambda share: (-costs[share], share)):
        least = loads.index(min(loads))
        loads[least] += costs[share]
        if least == part - 1:
            mine.add(share)
    return [case for case in cases if _share(case) in mine]


def _share(case: Case) -> str:
    """Return the key of cases that are given to one machine together."""
    return case.play or case.id
