"""Cases of programs that a seed draws for an engine (H6), and the search for smaller ones.

A start of an engine takes seconds: programs are few and rich, and are shrunk by leaving out clients
and deaths, many at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial

import msgspec

from killpoint.case import Case
from killpoint.scenario import AnyStep, Burst, Fault, Scenario
from killpoint.search.case_run import CaseRun
from killpoint.search.generated import drawn
from killpoint.search.play_evidence import Unsupported
from killpoint.search.shrink.attempt import fewest
from killpoint.systems.engine.cases.builders import NEEDS
from killpoint.systems.engine.generator import IN_TURN, Topology, program

_FULL = 10
"""Number of programs of a case under ``--full``."""
_Part = tuple[int, int]
"""Place of a client: its step, and its place there; or of a death: its step, and 0."""


def _run(topologies: Sequence[Topology], case_run: CaseRun) -> None:
    case_run.keeps_latest = True
    for number in range(_FULL if case_run.full else 1):
        turn = (case_run.seed + number) % len(topologies)
        _play(case_run, number, [*topologies[turn:], *topologies[:turn]])


def _play(case_run: CaseRun, number: int, topologies: Sequence[Topology]) -> None:
    """Play the program of this number, of the first topology that the target has."""
    scenario = program(case_run.outcome.id, case_run.seed, number, topologies[0])
    try:
        drawn(case_run, scenario, candidates)
    except Unsupported:
        if not topologies[1:]:
            raise
        _play(case_run, number, topologies[1:])


def candidates(scenario: Scenario) -> Generator[Scenario, bool, object]:
    """Offer the program with fewer and fewer of its clients and deaths."""
    return fewest(_parts(scenario), partial(_with, scenario), keep=1)


def _parts(scenario: Scenario) -> list[_Part]:
    found: list[_Part] = []
    for index, step in enumerate(scenario.steps):
        if isinstance(step, Burst):
            found += [(index, place) for place in range(len(step.clients))]
        elif isinstance(step, Fault):
            found.append((index, 0))
    return found


def _with(scenario: Scenario, parts: Sequence[_Part]) -> Scenario | None:
    """Return the program with these clients and deaths alone; None without any client."""
    steps: list[AnyStep] = []
    for index, step in enumerate(scenario.steps):
        places = [place for at, place in parts if at == index]
        if isinstance(step, Burst):
            if places:
                clients = [step.clients[place] for place in places]
                steps.append(msgspec.structs.replace(step, clients=clients))
        elif not isinstance(step, Fault) or places:
            steps.append(step)
    if not any(isinstance(step, Burst) for step in steps):
        return None
    return msgspec.structs.replace(scenario, steps=steps)


def _case(name: str, summary: str, topologies: Sequence[Topology]) -> Case:
    return Case(f"H6/{name}", summary, partial(_run, topologies), NEEDS)


CASES: tuple[Case, ...] = (
    _case(
        "generated-deaths",
        "generated programs: two replicas, of whose parts one after another is killed",
        ("two-replicas",),
    ),
    _case(
        "generated",
        "generated programs: dozens of clients ask, cancel and use ids again, in a small KV cache;"
        " prefill and decode are apart, or one replica does both, by turns",
        IN_TURN,
    ),
)
