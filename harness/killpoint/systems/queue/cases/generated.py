"""Cases of programs that Hypothesis writes for all parties of a queue at once (H1)."""

from __future__ import annotations

from functools import partial

from killpoint.case import Case
from killpoint.search.generated import programs_case
from killpoint.systems.queue.generator import programs

_PLAIN, _FULL = 12, 400
"""Number of programs of a case."""


CASES: tuple[Case, ...] = (
    Case(
        "H1/generated",
        "generated programs: readers of unequal pace, deadlines that cross, few slots",
        programs_case(partial(programs, remote=False, faults=False), _PLAIN, _FULL),
        frozenset({"queue", "deadlines"}),
    ),
    Case(
        "H1/generated-remote",
        "generated programs: some readers are remote",
        programs_case(partial(programs, remote=True, faults=False), _PLAIN, _FULL),
        frozenset({"queue", "deadlines", "remote"}),
    ),
    Case(
        "H1/generated-with-faults",
        "generated programs: a party is stopped for a while, or killed",
        programs_case(partial(programs, remote=False, faults=True), _PLAIN, _FULL),
        frozenset({"queue", "deadlines"}),
    ),
)
