"""Cases of programs that Hypothesis writes for the executor of a pool (H3)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.search.generated import programs_case
from killpoint.systems.pool.generator import busy_programs, programs, transfer_programs

_PLAIN, _FULL = 25, 500
_BUSY_PLAIN, _BUSY_FULL = 5, 100
_STEPS_PLAIN, _STEPS_FULL = 15, 200
"""Number of programs of a case."""


CASES: tuple[Case, ...] = (
    Case(
        "H3/generated",
        "generated programs: calls and futures whose deadlines cross, while a worker stands still",
        programs_case(programs, _PLAIN, _FULL),
        frozenset({"pool"}),
    ),
    Case(
        "H3/health-behind-calls",
        "generated programs: health is asked for behind slow calls, with less time than they take",
        programs_case(busy_programs, _BUSY_PLAIN, _BUSY_FULL),
        frozenset({"pool"}),
    ),
    Case(
        "H3/finished-transfers",
        "generated programs: each rank names transfers in steps of its own, and uses ids again",
        programs_case(transfer_programs, _STEPS_PLAIN, _STEPS_FULL),
        frozenset({"pool", "transfers"}),
    ),
)
