"""Cases of programs that Hypothesis writes for all ranks of a pipe at once (H4)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.search.generated import programs_case
from killpoint.systems.pipe.generator import programs, programs_with_harm
from killpoint.systems.pipe.generator_of_ends import programs_with_ends
from killpoint.systems.pipe.generator_of_tensors import programs_of_tensors

_PLAIN, _PLAIN_WITH_HARM, _PLAIN_OF_TENSORS, _PLAIN_WITH_ENDS, _FULL = 2, 1, 2, 4, 200
"""Number of programs of a case."""

CASES: tuple[Case, ...] = (
    Case(
        "H4/generated",
        "generated programs: many requests both ways, crossing leases, ids used again",
        programs_case(programs, _PLAIN, _FULL),
        frozenset({"pipe", "blocks", "deadlines"}),
    ),
    Case(
        "H4/generated-with-harm",
        "generated programs: the same, and blocks come swapped, twice, not at all, misshaped",
        programs_case(programs_with_harm, _PLAIN_WITH_HARM, _FULL),
        frozenset({"pipe", "blocks", "deadlines"}),
    ),
    Case(
        "H4/generated-tensors",
        "generated programs: rings whose ranks come in any order, threads that wait for room",
        programs_case(programs_of_tensors, _PLAIN_OF_TENSORS, _FULL),
        frozenset({"pipe", "deadlines"}),
    ),
    Case(
        "H4/generated-with-ends",
        "generated programs: many calls wait as the other rank dies or either one closes",
        programs_case(programs_with_ends, _PLAIN_WITH_ENDS, _FULL),
        frozenset({"pipe", "blocks", "deadlines"}),
    ),
)
