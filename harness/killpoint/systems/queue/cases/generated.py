"""Cases of programs that Hypothesis writes for all parties of a queue at once (H1)."""

from __future__ import annotations

from functools import partial

from killpoint.case import Case
from killpoint.search.generated import programs_case
from killpoint.systems.queue.generator import programs

_PLAIN, _FULL = 6, 300
"""Number of programs of a case."""
_PLAIN_ON_LINKS = 2
"""Number of those that idle for a time, since a connection was harmed."""


CASES: tuple[Case, ...] = (
    Case(
        "H1/generated",
        "generated programs: readers of unequal pace, deadlines that cross, few slots",
        programs_case(programs, _PLAIN, _FULL),
        frozenset({"queue", "deadlines"}),
    ),
    Case(
        "H1/generated-remote",
        "generated programs: some readers are remote",
        programs_case(partial(programs, remote=True), _PLAIN, _FULL),
        frozenset({"queue", "deadlines", "remote"}),
    ),
    Case(
        "H1/generated-with-faults",
        "generated programs: a party is stopped for a while, leaves, or is killed",
        programs_case(partial(programs, harm="parties"), _PLAIN, _FULL),
        frozenset({"queue", "deadlines"}),
    ),
    Case(
        "H1/generated-on-harmed-links",
        "generated programs: connections are reset or cut, also while the writer closes",
        programs_case(partial(programs, remote=True, harm="links"), _PLAIN_ON_LINKS, _FULL),
        frozenset({"queue", "deadlines", "remote", "wire"}),
    ),
)
