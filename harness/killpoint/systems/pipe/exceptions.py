"""Stories of exceptions in a pipe's calls: the call is made again, and all is as ever (R9)."""

from __future__ import annotations

from killpoint.scenario import (
    AnyStep,
    Fault,
    PipeClose,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Retry,
    Scenario,
    Tensor,
    Wait,
)
from killpoint.search.operations import Operation

_HANG_AFTER_S = 8.0
_ENDLESS = 60
"""More receives than there are tensors: a rank takes until it learns that no more will come."""
_MEETS_WITHIN = 1.5
"""Seconds that the others wait for a rank that may not come."""
_RANKS = ("pipe-0", "pipe-1")


def around_pipe_strike(operation: Operation, id: str, strike: Fault) -> Scenario:
    """The story of a pipe's operation that an exception strikes."""
    if operation.verb == "pipe-open":
        return operation.scenario(id, strike, *_opened_again())
    role = operation.role
    other = next(rank for rank in _RANKS if rank != role)
    story: list[AnyStep] = [*operation.lead, strike, *operation.during]
    story.append(Wait((role,), within=_HANG_AFTER_S))
    if operation.verb != "pipe-receive":  # another receive may wait for nothing
        story += [Retry(role), Wait((role,), within=_HANG_AFTER_S)]
    leaves, stays = (other, role) if operation.verb == "pipe-receive" else (role, other)
    return operation.scenario(
        id,
        *story,
        PipeClose((leaves,)),
        PipeReceive((stays,), _ENDLESS),
        PipeReceive((stays,), _ENDLESS),  # the first may have been told of a send that was struck
        Wait(within=_HANG_AFTER_S),
        PipeClose((stays,)),
        Wait(within=_HANG_AFTER_S),
    )


def _opened_again() -> list[AnyStep]:
    """After the struck call, whatever its outcome, the ranks meet at the same place again."""
    across = [PipeSend(_RANKS[0], [Tensor()]), PipeReceive((_RANKS[1],), 1)]
    back = [PipeSend(_RANKS[1], [Tensor()]), PipeReceive((_RANKS[0],), 1)]
    return [
        PipeOpen(timeout=_MEETS_WITHIN),
        Wait(within=_HANG_AFTER_S),
        PipeClose(timeout=1.0),
        Wait(within=_HANG_AFTER_S),
        PipeOpen(timeout=_HANG_AFTER_S),
        Wait(within=2 * _HANG_AFTER_S),
        *across,
        *back,
        Wait(within=_HANG_AFTER_S),
    ]
