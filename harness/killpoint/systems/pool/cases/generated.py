"""Cases of programs that Hypothesis writes for the executor of a pool (H3)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.search.generated import programs_case
from killpoint.systems.pool.generator import programs

_PLAIN, _FULL = 25, 500
"""Number of programs of a case."""


CASES: tuple[Case, ...] = (
    Case(
        "H3/generated",
        "generated programs: calls and futures whose deadlines cross, while a worker stands still",
        programs_case(programs, _PLAIN, _FULL),
        frozenset({"pool"}),
    ),
)
