"""Exceptions placed in operations: what was struck is done once more, and all must be as ever."""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.scenario import Fault, FaultName, Retry, Scenario, Wait
from killpoint.search.case_run import CaseRun
from killpoint.search.operations import Operation
from killpoint.search.sweeps import sweep
from killpoint.systems.pipe.exceptions import around_pipe_strike


def around_strike(operation: Operation, id: str, fault: Fault) -> Scenario:
    """The story of an operation that an exception strikes, and that is then done once more."""
    return operation.scenario(
        id,
        *operation.lead,
        fault,
        *operation.during,
        Wait((operation.role,), within=8.0),
        Retry(operation.role),
        Wait(within=8.0),
        *operation.rest,
    )


def strike_anywhere(
    case_run: CaseRun, operations: Sequence[Operation], samples: int, fault: FaultName = "raise"
) -> None:
    """Raise at lines of each of these operations; ``samples``: how many in all."""
    around = around_pipe_strike if operations[0].pipe else around_strike
    sweep(case_run, operations, samples, fault, around)
