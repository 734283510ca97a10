"""Cases of programs that a seed draws for an engine (H6), and the search for smaller ones.

A start of an engine takes seconds: programs are few and rich, and are shrunk by leaving out clients
and deaths, many at a time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import partial

import msgspec

from killpoint.case import Case
from killpoint.scenario import AnyStep, Burst, Fault, Scenario
from killpoint.search.case_run import CaseRun, Violated
from killpoint.search.play_evidence import Unsupported
from killpoint.search.shrink.attempt import fewest
from killpoint.systems.engine.cases.builders import NEEDS
from killpoint.systems.engine.generator import IN_TURN, Topology, program

_FULL = 10
"""Number of programs of a case under ``--full``."""
_SHRUNK_FOR = 15.0
"""Seconds for which a violated program is shrunk; ten times as long under ``--full``."""
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
    began = time.monotonic()
    try:
        case_run.play(scenario)
    except Unsupported:
        if not topologies[1:]:
            raise
        _play(case_run, number, topologies[1:])
    except Violated as first:
        seconds = _SHRUNK_FOR * (10 if case_run.full else 1)
        smaller(case_run, scenario, seconds, took=time.monotonic() - began)
        raise Violated(case_run.outcome.cause) from first


def smaller(case_run: CaseRun, scenario: Scenario, seconds: float, *, took: float = 0.0) -> None:
    """Play smaller and smaller programs that violate, for so long.

    No play is begun that would last longer, if it took as long as the last one; ``took``: how long
    the scenario's own play did.
    """
    until = time.monotonic() + seconds
    offers = fewest(_parts(scenario), partial(_with, scenario), keep=1)
    with contextlib.suppress(StopIteration):
        candidate = next(offers)
        while (began := time.monotonic()) + took < until:
            violates = _violates(case_run, candidate)
            took = time.monotonic() - began
            candidate = offers.send(violates)


def _violates(case_run: CaseRun, scenario: Scenario) -> bool:
    try:
        case_run.play(scenario)
    except Violated:
        return True
    return False


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
