"""Cases of dialogues that a seed draws (H7), and the search for a smaller one that violates.

A start of a server takes seconds: programs are few and rich, and are shrunk by leaving out clients,
many at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial

import msgspec

from killpoint.case import Case
from killpoint.scenario import Scenario
from killpoint.search.case_run import CaseRun
from killpoint.search.generated import drawn
from killpoint.search.shrink.attempt import fewest
from killpoint.systems.server.generator import program
from killpoint.systems.server.program import Topology
from killpoint.systems.server.steps import Exchange, ServerDesertion, ServerDialogue

_FULL = 15
"""Number of programs of a case under ``--full``."""


def _run(topology: Topology, case_run: CaseRun) -> None:
    case_run.keeps_latest = True
    for number in range(programs(full=case_run.full)):
        scenario = program(case_run.outcome.id, case_run.seed, number, topology)
        drawn(case_run, scenario, candidates)


def programs(*, full: bool) -> int:
    """Return the number of programs that each case plays."""
    return _FULL if full else 1


def candidates(scenario: Scenario) -> Generator[Scenario, bool, object]:
    """Offer the program without one of its two steps, then with fewer and fewer of its clients."""
    for kind in (ServerDialogue, ServerDesertion):
        steps = [step for step in scenario.steps if not isinstance(step, kind)]
        if 1 < len(steps) < len(scenario.steps):
            without = msgspec.structs.replace(scenario, steps=steps)
            if (yield without):
                scenario = without
    return (yield from fewest(_exchanges(scenario), partial(_with, scenario), keep=1))


def _exchanges(scenario: Scenario) -> list[Exchange]:
    """Return the clients of its dialogue; none if it has no dialogue."""
    dialogues = [step.exchanges for step in scenario.steps if isinstance(step, ServerDialogue)]
    return dialogues[0] if dialogues else []


def _with(scenario: Scenario, exchanges: Sequence[Exchange]) -> Scenario:
    steps = [
        msgspec.structs.replace(step, exchanges=list(exchanges))
        if isinstance(step, ServerDialogue)
        else step
        for step in scenario.steps
    ]
    return msgspec.structs.replace(scenario, steps=steps)


def _case(name: str, summary: str, topology: Topology) -> Case:
    def run(case_run: CaseRun) -> None:
        _run(topology, case_run)

    return Case(f"H7/{name}", summary, run, frozenset({"server"}))


_DRAWN: tuple[tuple[str, str, Topology], ...] = (
    (
        "generated",
        "a generated dialogue: dozens of clients ask, err, dawdle and leave at once",
        "tensor-parallel",
    ),
    (
        "generated-front-ends",
        "a generated dialogue with a server of two front ends",
        "front-ends",
    ),
)
TOPOLOGIES: dict[str, Topology] = {f"H7/{name}": topology for name, _, topology in _DRAWN}
"""Topology of each case, by its id."""
GENERATED: tuple[Case, ...] = tuple(_case(*each) for each in _DRAWN)
