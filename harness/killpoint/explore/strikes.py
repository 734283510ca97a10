"""Exceptions placed in operations: count the lines, raise at them, and see what is left."""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.explore.kills import chosen, count_lines
from killpoint.explore.operations import Operation
from killpoint.explore.trial import Trial
from killpoint.scenario import Again, Fault, FaultName, Point, Scenario, Wait


def around_strike(operation: Operation, id: str, fault: Fault) -> Scenario:
    """The story of an operation that an exception strikes, and that is then done once more."""
    return operation.scenario(
        id,
        *operation.lead,
        fault,
        *operation.during,
        Wait((operation.role,), within=8.0),
        Again(operation.role),
        Wait(within=8.0),
        *operation.rest,
    )


def strike_anywhere(
    trial: Trial, operations: Sequence[Operation], samples: int, fault: FaultName = "raise"
) -> None:
    """Raise at lines of each of these operations; ``samples``: how many in all."""
    id = trial.outcome.id
    for index, operation in enumerate(operations):
        at = Point(operation.verb)

        def around(step: object, operation: Operation = operation) -> Scenario:
            return operation.plainly(id, step)  # type: ignore[arg-type]

        count = count_lines(trial, operation.role, at, around, plays=1)
        share = samples * (index + 1) // len(operations) - samples * index // len(operations)
        sure = operation.surely(count)
        for line in chosen(trial, count, share):
            placed = Fault(fault, operation.role, Point(operation.verb, line=line))
            trial.play(around_strike(operation, id, placed), may_miss=line >= sure)
