"""Delay-bounded search: every choice that is not the default costs one (Emmi et al., POPL 2011)."""

from __future__ import annotations

from killpoint.search.schedules.bounded import Bounded
from killpoint.search.schedules.reduction import Reduction


class Delays(Bounded):
    """All schedules with at most ``bound`` deviations of any kind.

    Bounded also where tasks wait for each other all the time, and so reaches further into models
    with many actions of the environment than a preemption bound.
    """

    def __init__(
        self, bound: int, seed: int = 0, *, first: bool = True, reduction: Reduction | None = None
    ) -> None:
        super().__init__(
            f"≤ {bound} delays", bound, lambda _: 1, seed, least=1, first=first, reduction=reduction
        )
