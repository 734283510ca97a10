"""Cases of programs that Hypothesis writes for all peers of a coordinator at once (H5)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.search.generated import programs_case
from killpoint.systems.coordinator.generator import programs, programs_without_losses
from killpoint.systems.coordinator.generator_of_faults import (
    programs_with_losses,
    programs_with_waves,
)

_PLAIN, _PLAIN_WITHOUT_LOSSES, _PLAIN_WITH_WAVES, _FULL = 4, 6, 3, 300
"""Number of programs of a case."""
_NEEDS = frozenset({"coordinator_process", "peer_watch"})


CASES: tuple[Case, ...] = (
    Case(
        "H5/generated",
        "generated programs: front ends come and go, counts and the number of ranks change",
        programs_case(programs, _PLAIN, _FULL),
        _NEEDS,
    ),
    Case(
        "H5/generated-without-losses",
        "generated programs: front ends come and go, counts change, waves begin and end",
        programs_case(programs_without_losses, _PLAIN_WITHOUT_LOSSES, _FULL),
        frozenset({"coordinator_process"}),
    ),
    Case(
        "H5/generated-with-losses",
        "generated programs: ranks are lost, return, and come by a new link before the old ends",
        programs_case(programs_with_losses, _PLAIN, _FULL),
        _NEEDS,
    ),
    Case(
        "H5/generated-with-waves",
        "generated programs: waves begin, break and end, often with the first rank gone",
        programs_case(programs_with_waves, _PLAIN_WITH_WAVES, _FULL),
        _NEEDS,
    ),
)
