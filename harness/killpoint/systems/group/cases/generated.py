"""Cases of programs that Hypothesis writes for all ranks of a group at once (H2)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.search.generated import programs_case
from killpoint.systems.group.generator import programs
from killpoint.systems.group.generator_of_faults import programs_with_deaths, programs_with_faults
from killpoint.systems.group.generator_of_threads import programs_with_threads

_PLAIN, _PLAIN_WITH_FAULTS, _PLAIN_WITH_DEATHS, _PLAIN_WITH_THREADS, _FULL = 4, 3, 2, 2, 300
"""Number of programs of a case."""


CASES: tuple[Case, ...] = (
    Case(
        "H2/generated",
        "generated programs: lanes, deadlines and collective calls of one to five ranks at once",
        programs_case(programs, _PLAIN, _FULL),
        frozenset({"group", "deadlines"}),
    ),
    Case(
        "H2/generated-with-faults",
        "generated programs: ranks stand still, lose their connection, leave, never come",
        programs_case(programs_with_faults, _PLAIN_WITH_FAULTS, _FULL),
        frozenset({"group", "deadlines"}),
    ),
    Case(
        "H2/generated-with-deaths",
        "generated programs: a rank dies inside a gather that the others go on with",
        programs_case(programs_with_deaths, _PLAIN_WITH_DEATHS, _FULL),
        frozenset({"group", "deadlines"}),
    ),
    Case(
        "H2/generated-with-threads",
        "generated programs: ranks wait in several calls at once, each in a thread of its own",
        programs_case(programs_with_threads, _PLAIN_WITH_THREADS, _FULL),
        frozenset({"group", "deadlines", "group_threads"}),
    ),
)
