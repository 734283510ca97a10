"""Deaths placed at lines of an operation: count the lines once, then strike among them."""

from __future__ import annotations

from collections.abc import Callable

from killpoint.explore.trial import Trial
from killpoint.scenario import AnyStep, Count, Fault, FaultName, Point, Scenario, Verb

Around = Callable[[AnyStep], Scenario]
"""Builds the scenario around the step that declares the fault (or counts)."""


def count_lines(trial: Trial, role: str, at: Point, around: Around) -> int:
    """How many lines of the target's code the operation executes when nothing is wrong."""
    play = trial.scout(around(Count(role, at)))
    for event in play.history.of("lines", role=role):
        return event.number("count", 0)
    return 0


def strike(
    trial: Trial, role: str, op: Verb, nth: int, around: Around, lines: list[int], fault: FaultName
) -> None:
    """Play once for each line, with the fault there."""
    for line in lines:
        trial.play(around(Fault(fault, role, Point(op, line=line, nth=nth))))


def chosen(trial: Trial, count: int, samples: int) -> list[int]:
    """Lines to strike: all of them under ``--full``, else a sample that the seed decides."""
    if trial.full or samples >= count:
        return list(range(count))
    return sorted(trial.random.sample(range(count), samples))
