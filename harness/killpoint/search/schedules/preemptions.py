"""Preemption-bounded search: the choice of the next task where one must wait is free.

After Musuvathi and Qadeer (PLDI 2007).
"""

from __future__ import annotations

from killpoint.interfaces import Option
from killpoint.search.schedules.bounded import Bounded
from killpoint.search.schedules.reduction import Reduction


class Preemptions(Bounded):
    """All schedules with at most ``bound`` preemptions.

    Events of the world (an early drain, a stale value, a lost frame) count as one, too.
    """

    def __init__(
        self, bound: int, seed: int = 0, *, first: bool = True, reduction: Reduction | None = None
    ) -> None:
        super().__init__(
            f"≤ {bound} preemptions", bound, _cost, seed, first=first, reduction=reduction
        )


def _cost(option: Option) -> int:
    return int(option.preempts)
