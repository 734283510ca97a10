"""Cases of programs that Hypothesis writes for the executor of a pool (H3)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.search.case_run import CaseRun
from killpoint.search.generated import generated
from killpoint.systems.pool.generator import programs

_PLAIN, _FULL = 25, 500
"""Number of programs of a case."""


def _programs(case_run: CaseRun) -> None:
    strategy = programs(case_run.outcome.id, case_run.seed)
    generated(case_run, strategy, _FULL if case_run.full else _PLAIN)


CASES: tuple[Case, ...] = (
    Case(
        "H3/generated",
        "generated programs: calls and futures whose deadlines cross, while a worker stands still",
        _programs,
        frozenset({"pool"}),
    ),
)
