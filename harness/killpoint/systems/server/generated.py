"""Cases of dialogues that a seed draws (H7), and the search for a smaller one that violates.

A start of a server takes seconds: programs are few and rich, and are shrunk by leaving out clients,
many at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from killpoint.case import Case
from killpoint.scenario import Scenario
from killpoint.search.case_run import CaseRun, Violated
from killpoint.systems.server.generator import program
from killpoint.systems.server.program import Topology
from killpoint.systems.server.steps import Exchange, ServerDialogue

_FULL = 25
"""Number of programs of a case under ``--full``."""
_SHRUNK_FOR = 15.0
"""Seconds for which a violated program is shrunk; ten times as long under ``--full``."""


def _run(topology: Topology, case_run: CaseRun) -> None:
    case_run.keeps_latest = True
    for number in range(_FULL if case_run.full else 1):
        scenario = program(case_run.outcome.id, case_run.seed, number, topology)
        try:
            case_run.play(scenario)
        except Violated as first:
            smaller(case_run, scenario, _SHRUNK_FOR * (10 if case_run.full else 1))
            raise Violated(case_run.outcome.cause) from first


def smaller(case_run: CaseRun, scenario: Scenario, seconds: float) -> None:
    """Play smaller and smaller dialogues that violate, for so long."""

    def violates(exchanges: list[Exchange]) -> bool:
        if time.monotonic() > until:
            return False
        try:
            case_run.play(_with(scenario, exchanges))
        except Violated:
            return True
        return False

    until = time.monotonic() + seconds
    shrunk(_exchanges(scenario), violates)


def shrunk(exchanges: list[Exchange], violates: Callable[[list[Exchange]], bool]) -> list[Exchange]:
    """Return the exchanges that are left when no part of them can be left out any more."""
    parts = 2
    while len(exchanges) > 1:
        fewer = next((fewer for fewer in _fewer(exchanges, parts) if violates(fewer)), None)
        if fewer is not None:
            exchanges, parts = fewer, 2
        elif parts >= len(exchanges):
            break
        else:
            parts = min(len(exchanges), 2 * parts)
    return exchanges


def _fewer(exchanges: list[Exchange], parts: int) -> Iterator[list[Exchange]]:
    """Yield each of so many parts alone, then all but each of them."""
    size = -(-len(exchanges) // parts)
    begins = range(0, len(exchanges), size)
    yield from (exchanges[begin : begin + size] for begin in begins)
    if parts > 2:
        yield from (exchanges[:begin] + exchanges[begin + size :] for begin in begins)


def _exchanges(scenario: Scenario) -> list[Exchange]:
    return next(step.exchanges for step in scenario.steps if isinstance(step, ServerDialogue))


def _with(scenario: Scenario, exchanges: list[Exchange]) -> Scenario:
    steps = [
        msgspec.structs.replace(step, exchanges=exchanges)
        if isinstance(step, ServerDialogue)
        else step
        for step in scenario.steps
    ]
    return msgspec.structs.replace(scenario, steps=steps)


def _case(name: str, summary: str, topology: Topology) -> Case:
    def run(case_run: CaseRun) -> None:
        _run(topology, case_run)

    return Case(f"H7/{name}", summary, run, frozenset({"server"}))


GENERATED: tuple[Case, ...] = (
    _case(
        "generated",
        "a generated dialogue: dozens of clients ask, err, dawdle and leave at once",
        "tensor-parallel",
    ),
    _case(
        "generated-front-ends",
        "a generated dialogue with a server of two front ends",
        "front-ends",
    ),
)
