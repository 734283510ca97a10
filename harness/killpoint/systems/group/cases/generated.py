"""Cases of programs that Hypothesis writes for all ranks of a group at once (H2)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.search.case_run import CaseRun
from killpoint.search.generated import generated
from killpoint.systems.group.generator import programs

_PLAIN, _FULL = 8, 300
"""Number of programs of a case."""


def _programs(case_run: CaseRun) -> None:
    strategy = programs(case_run.outcome.id, case_run.seed)
    generated(case_run, strategy, _FULL if case_run.full else _PLAIN)


CASES: tuple[Case, ...] = (
    Case(
        "H2/generated",
        "generated programs: lanes, deadlines and collective calls of one to five ranks at once",
        _programs,
        frozenset({"group", "deadlines"}),
    ),
)
