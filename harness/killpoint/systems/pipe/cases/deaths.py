"""Cases of deaths in a pipe (K4), and of what remains of it (L1)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Fault,
    PipeClose,
    PipeDrain,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Tensor,
    Wait,
    WaitBlocked,
)
from killpoint.systems.pipe.cases.builders import (
    FIRST,
    HANG_AFTER_S,
    LARGE,
    OPEN_PIPE,
    SECOND,
    SMALL,
    pipe_case,
    transfer,
)
from killpoint.systems.queue.cases.builders import MIB

_WORKS: list[AnyStep] = [
    *OPEN_PIPE,
    *transfer(FIRST, SECOND, [SMALL, LARGE]),
    *transfer(SECOND, FIRST, [SMALL]),
    Wait(within=20.0),
]
_MUCH = Tensor("uint8", (4 * MIB,), repeat=16)
"""More than a pipe keeps whose limit is 1 MiB."""


def _while_it_waits(dead: str, survivor: str) -> list[AnyStep]:
    """The survivor waits for a tensor when the other is killed; then it tries everything."""
    return [
        *_WORKS,
        PipeReceive((survivor,), 1),
        WaitBlocked((survivor,)),
        Fault("kill", dead),
        Wait(within=HANG_AFTER_S),
        PipeReceive((survivor,), 1),
        PipeSend(survivor, [SMALL], keep_on=True),
        Wait(within=HANG_AFTER_S),
        PipeClose((survivor,)),
        Wait(within=HANG_AFTER_S),
    ]


def _while_it_sends(dead: str, survivor: str) -> list[AnyStep]:
    """The survivor has more to send than the pipe keeps, and no rank receives it."""
    return [
        *_WORKS,
        PipeSend(survivor, [_MUCH]),
        WaitBlocked((survivor,)),
        Fault("kill", dead),
        Wait(within=HANG_AFTER_S),
        PipeClose((survivor,)),
        Wait(within=HANG_AFTER_S),
    ]


def _while_idle(dead: str, survivor: str) -> list[AnyStep]:
    return [
        *_WORKS,
        Fault("kill", dead),
        PipeSend(survivor, [Tensor(), LARGE, Tensor()], keep_on=True),
        PipeReceive((survivor,), 1),
        Wait(within=HANG_AFTER_S),
        PipeClose((survivor,)),
        Wait(within=HANG_AFTER_S),
    ]


_DEATHS = (
    pipe_case(
        "K4/first-killed-while-the-other-waits",
        "the rank that listens is killed while the other waits for a tensor",
        _while_it_waits(FIRST, SECOND),
    ),
    pipe_case(
        "K4/second-killed-while-the-other-waits",
        "the rank that came by itself is killed while the one that listens waits for a tensor",
        _while_it_waits(SECOND, FIRST),
    ),
    pipe_case(
        "K4/killed-while-the-other-sends",
        "each is killed while the other has more to send than the pipe keeps",
        _while_it_sends(FIRST, SECOND),
        _while_it_sends(SECOND, FIRST),
    ),
    pipe_case(
        "K4/killed-while-idle",
        "each is killed while nothing is on the way; the other sends and receives",
        _while_idle(FIRST, SECOND),
        _while_idle(SECOND, FIRST),
    ),
    pipe_case(
        "K4/one-of-three-killed",
        "of a ring of three, one is killed; both beside it are told",
        [
            *OPEN_PIPE,
            *transfer("pipe-0", "pipe-1", [SMALL]),
            *transfer("pipe-1", "pipe-2", [SMALL]),
            Wait(within=HANG_AFTER_S),
            PipeReceive(("pipe-2",), 1),
            WaitBlocked(("pipe-2",)),
            Fault("kill", "pipe-1"),
            PipeSend("pipe-0", [_MUCH]),
            Wait(within=HANG_AFTER_S),
            PipeClose(("pipe-0", "pipe-2")),
            Wait(within=HANG_AFTER_S),
        ],
        size=3,
    ),
    pipe_case(
        "K4/killed-with-tensors-unread",
        "a rank sends and is killed: what was sent whole may come, and then the error",
        [
            *_WORKS,
            PipeSend(FIRST, [SMALL, Tensor("uint8", (300_000,))]),
            Wait((FIRST,), within=HANG_AFTER_S),
            PipeDrain((FIRST,)),
            Wait((FIRST,), within=HANG_AFTER_S),
            Fault("kill", FIRST),
            PipeReceive((SECOND,), 6),
            Wait(within=HANG_AFTER_S),
        ],
        buffer_bytes=8 * MIB,
    ),
    pipe_case(
        "K4/killed-while-opening",
        "a rank is killed before all have come: the others are told by their own deadline",
        [
            PipeOpen(("pipe-0", "pipe-2"), timeout=1.5),
            WaitBlocked(("pipe-0", "pipe-2")),
            Fault("kill", "pipe-2"),
            Wait(within=HANG_AFTER_S),
        ],
        size=3,
    ),
)

_LEAKS = (
    pipe_case("L1/pipe-clean-end", "an ordinary life of a pipe", _WORKS),
    pipe_case(
        "L1/pipe-killed-then-next-start",
        "both ranks of a pipe are killed with tensors on the way; the next pipe starts",
        [
            *OPEN_PIPE,
            PipeSend(FIRST, [Tensor("uint8", (MIB,), repeat=2)]),
            Wait((FIRST,), within=HANG_AFTER_S),
            Fault("kill", FIRST),
            Fault("kill", SECOND),
        ],
        restart=True,
        buffer_bytes=8 * MIB,
    ),
)

CASES: tuple[Case, ...] = (*_DEATHS, *_LEAKS)
