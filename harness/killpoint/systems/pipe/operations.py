"""The operations of a pipe's two ranks."""

from __future__ import annotations

from killpoint.scenario import (
    AnyStep,
    PipeClose,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Tensor,
    Verb,
    Wait,
)
from killpoint.search.operations import HANG_AFTER_S, Operation
from killpoint.targets.shapes import PipeShape

_PIPED: list[AnyStep] = [PipeOpen(), Wait(within=30.0)]
_CARRIED = [Tensor(repeat=2), Tensor("uint8", (300_000,)), Tensor(form="none")]


def _pipe_operation(
    name: str,
    role: str,
    verb: Verb,
    now: list[AnyStep],
    rest: list[AnyStep],
    *,
    lead: list[AnyStep] | None = None,
    joint: bool = False,
) -> Operation:
    before = _PIPED if lead is None else lead
    shape = PipeShape(buffer_bytes=200_000)
    return Operation(name, role, verb, before, now, rest, joint=joint, pipe=shape)


def _pipe_both(source: str, taker: str) -> list[AnyStep]:
    """One rank sends, the other takes it: a call of either may be struck."""
    return [PipeReceive((taker,), 4), PipeSend(source, _CARRIED)]


def _pipe_rest(source: str, taker: str) -> list[AnyStep]:
    """The other way round, and the next tensor in the same direction."""
    return [
        PipeReceive((source,), 1),
        PipeSend(taker, [Tensor()]),
        Wait(within=HANG_AFTER_S),
        PipeReceive((taker,), 1),
        PipeSend(source, [Tensor()]),
        Wait(within=HANG_AFTER_S),
    ]


PIPE: tuple[Operation, ...] = tuple(
    operation
    for role, other in (("pipe-0", "pipe-1"), ("pipe-1", "pipe-0"))
    for operation in (
        _pipe_operation(
            f"{role}-opens",
            role,
            "pipe-open",
            [PipeOpen()],
            _pipe_rest(role, other),
            lead=[],
            joint=True,
        ),
        _pipe_operation(
            f"{role}-sends", role, "pipe-send", _pipe_both(role, other), _pipe_rest(role, other)
        ),
        _pipe_operation(
            f"{role}-receives",
            role,
            "pipe-receive",
            _pipe_both(other, role),
            _pipe_rest(role, other),
        ),
        _pipe_operation(
            f"{role}-closes",
            role,
            "pipe-close",
            [PipeClose((role,))],
            [],
            lead=[*_PIPED, *_pipe_both(role, other), Wait(within=HANG_AFTER_S)],
        ),
    )
)
"""Operations of either of the two ranks."""

CARRIERS: tuple[Operation, ...] = tuple(
    _pipe_operation(f"{role}-{what}", role, "carry", now, _pipe_rest(source, taker))
    for role, what, source, taker, now in (
        ("pipe-0", "carries", "pipe-0", "pipe-1", _pipe_both("pipe-0", "pipe-1")),
        ("pipe-1", "takes-in", "pipe-0", "pipe-1", _pipe_both("pipe-0", "pipe-1")),
        ("pipe-1", "carries", "pipe-1", "pipe-0", _pipe_both("pipe-1", "pipe-0")),
    )
)
"""Work that the target's own threads do for a rank meanwhile."""
