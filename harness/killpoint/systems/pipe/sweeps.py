"""Stories of stops, deaths and exceptions at lines of a pipe's calls and of its own threads."""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.scenario import (
    AnyStep,
    Fault,
    FaultName,
    Pause,
    PipeClose,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Scenario,
    Tensor,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.operations import Operation
from killpoint.search.sweeps import placed

_HANG_AFTER_S = 6.0
_STANDS = 0.04
"""Seconds that a stopped role stands."""
_MUCH = Tensor("uint8", (400_000,), repeat=8)
"""More than a pipe of these plays keeps."""
_BEFORE_ALL_CAME = 1.5
"""The deadline of a rank that makes its end while the other is killed."""


def around(operation: Operation, id: str, fault: Fault) -> Scenario:
    """The story of an operation that a fault strikes."""
    if fault.fault == "stop":
        story = _stopped(operation, fault)
    elif fault.fault == "raise":
        story = _struck(operation, fault)
    else:
        story = _killed(operation, fault)
    return operation.scenario(id, *story)


def _stopped(operation: Operation, stop: Fault) -> list[AnyStep]:
    """The struck role stands for a moment, and goes on: all is as before."""
    went_on = [Pause(_STANDS), Fault("continue", operation.role), Wait(within=20.0)]
    lead = _declared(operation, stop)
    return [*lead, *operation.during, *went_on, *operation.rest]


def _declared(operation: Operation, fault: Fault) -> list[AnyStep]:
    """Return the lead and the fault: the fault of a thread comes before there is any."""
    carries = operation.verb == "carry"
    return [fault, *operation.lead] if carries else [*operation.lead, fault]


def _struck(operation: Operation, strike: Fault) -> list[AnyStep]:
    """An exception in a carrying thread is reported to a caller, or nothing is lost."""
    roles = ("pipe-0", "pipe-1")
    closes: list[AnyStep] = [
        step for role in roles for step in (PipeClose((role,)), Wait(within=_HANG_AFTER_S))
    ]
    lead = [*_declared(operation, strike), *operation.during, Wait(within=_HANG_AFTER_S)]
    # Not all of what comes after: its own next call may tell the rank of this, and send nothing.
    return [*lead, *_carried_on(operation)[:3], *closes]


def _carried_on(operation: Operation) -> list[AnyStep]:
    """Return the steps after the call, if a thread may come to its point there."""
    return operation.rest if operation.verb == "carry" else []


def _killed(operation: Operation, kill: Fault) -> list[AnyStep]:
    """The other one tries to receive and to send, and closes its end."""
    role = operation.role
    other = "pipe-1" if role == "pipe-0" else "pipe-0"
    if operation.verb == "pipe-open":
        after = [Fault("kill", role), PipeReceive((other,), 1), Wait(within=_HANG_AFTER_S)]
        return [kill, PipeOpen(timeout=_BEFORE_ALL_CAME), Wait(within=_HANG_AFTER_S), *after]
    return [
        *_declared(operation, kill),
        *operation.during,
        Wait((role,), within=_HANG_AFTER_S),
        *_carried_on(operation),
        Fault("kill", role),  # if it did not come to the point: the story need not last
        PipeReceive((other,), 1),
        PipeSend(other, [_MUCH]),
        Wait((other,), within=_HANG_AFTER_S),
        PipeClose((other,)),
        Wait(within=_HANG_AFTER_S),
    ]


def sweep_pipe(
    case_run: CaseRun, operations: Sequence[Operation], samples: int, fault: FaultName
) -> None:
    """Strike lines of these operations."""
    for operation, point, may_miss in placed(case_run, operations, samples):
        carries = operation.verb == "carry"  # how often a thread looks about differs
        story = around(operation, case_run.outcome.id, Fault(fault, operation.role, point))
        story.seed = case_run.seed
        case_run.play(story, may_miss=may_miss or carries)
