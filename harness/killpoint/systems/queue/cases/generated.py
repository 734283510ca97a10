"""Cases of programs that Hypothesis writes for all parties of a queue at once (H1)."""

from __future__ import annotations

from functools import partial

from killpoint.case import Case
from killpoint.search.case_run import CaseRun
from killpoint.search.generated import generated
from killpoint.systems.queue.generator import programs

_PLAIN, _FULL = 12, 400
"""Number of programs of a case."""


def _programs(case_run: CaseRun, *, remote: bool, faults: bool) -> None:
    strategy = programs(case_run.outcome.id, case_run.seed, remote=remote, faults=faults)
    generated(case_run, strategy, _FULL if case_run.full else _PLAIN)


CASES: tuple[Case, ...] = (
    Case(
        "H1/generated",
        "generated programs: readers of unequal pace, deadlines that cross, few slots",
        partial(_programs, remote=False, faults=False),
        frozenset({"queue", "deadlines"}),
    ),
    Case(
        "H1/generated-remote",
        "generated programs: some readers are remote",
        partial(_programs, remote=True, faults=False),
        frozenset({"queue", "deadlines", "remote"}),
    ),
    Case(
        "H1/generated-with-faults",
        "generated programs: a party is stopped for a while, or killed",
        partial(_programs, remote=False, faults=True),
        frozenset({"queue", "deadlines"}),
    ),
)
