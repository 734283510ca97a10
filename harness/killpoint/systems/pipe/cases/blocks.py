"""Cases of KV blocks over a pipe (K8): late, stale, repeated or lost ones are never served."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    BlocksForge,
    BlocksReceive,
    BlocksSend,
    Fault,
    Pause,
    PipeMeet,
    Tensor,
    Wait,
)
from killpoint.systems.pipe.cases.builders import FIRST, HANG_AFTER_S, OPEN_PIPE, SECOND, pipe_case
from killpoint.systems.pipe.steps import Forgery

_BLOCKS = [Tensor("float16", (16, 64), repeat=4)]
_LARGE = [Tensor("float16", (256, 1024), repeat=6)]
_SHORT = 0.4
"""Seconds of a lease that is to end."""
_DONE: list[AnyStep] = [Wait(within=HANG_AFTER_S), PipeMeet(), Wait(within=HANG_AFTER_S)]


def _gives(request: str, lease: float = 4.0, blocks: list[Tensor] = _BLOCKS) -> BlocksSend:
    return BlocksSend(FIRST, request, blocks, lease, beside=True)


def _takes(request: str, timeout: float = 3.0) -> BlocksReceive:
    return BlocksReceive((SECOND,), request, timeout)


def _harmed(how: Forgery) -> list[AnyStep]:
    """Asked for at once; then the same request's blocks come unharmed."""
    return [
        *OPEN_PIPE,
        BlocksForge(FIRST, how),
        _gives("a", 1.0),
        _takes("a", 0.6),
        *_DONE,
        _gives("a"),
        _takes("a"),
        *_DONE,
    ]


def _too_late(how: Forgery) -> list[AnyStep]:
    """The lease is over when the last block comes; then other blocks of the same request do."""
    return [
        *OPEN_PIPE,
        BlocksForge(FIRST, how),
        _gives("a", _SHORT),
        *_DONE,
        _takes("a", 0.3),
        Wait(within=HANG_AFTER_S),
        _gives("a"),
        _takes("a"),
        *_DONE,
    ]


CASES: tuple[Case, ...] = (
    pipe_case(
        "K8/one-after-the-other",
        "requests' blocks are sent and taken in order, large ones too",
        [
            *OPEN_PIPE,
            *(step for name in ("a", "b") for step in (_gives(name), _takes(name))),
            _gives("large", blocks=_LARGE),
            _takes("large"),
            *_DONE,
        ],
    ),
    pipe_case(
        "K8/asked-for-first",
        "a request's blocks are asked for before they are sent",
        [
            *OPEN_PIPE,
            BlocksReceive((SECOND,), "a", 3.0, beside=True),
            Wait(within=HANG_AFTER_S),
            _gives("a"),
            *_DONE,
        ],
    ),
    pipe_case(
        "K8/taken-in-another-order",
        "three requests' blocks are sent, and asked for the other way round",
        [
            *OPEN_PIPE,
            *(_gives(name) for name in ("a", "b", "c")),
            *(_takes(name) for name in ("c", "b", "a")),
            *_DONE,
        ],
    ),
    pipe_case(
        "K8/never-asked-for",
        "nobody takes a request's blocks: the transfer ends with its lease, the next one works",
        [
            *OPEN_PIPE,
            _gives("a", _SHORT),
            Wait(within=HANG_AFTER_S),
            PipeMeet(),
            Wait(within=HANG_AFTER_S),
            _gives("b"),
            _takes("b"),
            *_DONE,
        ],
    ),
    pipe_case(
        "K8/asked-for-too-late",
        "a request's blocks are asked for after its lease, and after they are free",
        [
            *OPEN_PIPE,
            _gives("a", _SHORT),
            Wait(within=HANG_AFTER_S),
            PipeMeet(),
            Wait(within=HANG_AFTER_S),
            Pause(0.2),
            _takes("a", 0.6),
            Wait(within=HANG_AFTER_S),
            _gives("b"),
            _takes("b"),
            *_DONE,
        ],
    ),
    pipe_case(
        "K8/asked-for-twice",
        "a request's blocks are served once, and to nobody a second time",
        [
            *OPEN_PIPE,
            _gives("a"),
            _takes("a"),
            Wait(within=HANG_AFTER_S),
            _takes("a", 0.5),
            Wait(within=HANG_AFTER_S),
            _gives("b"),
            _takes("b"),
            *_DONE,
        ],
    ),
    pipe_case(
        "K8/same-request-again",
        "a request that ran out is sent again with other blocks: never the stale ones",
        [
            *OPEN_PIPE,
            _gives("a", _SHORT),
            Wait(within=HANG_AFTER_S),
            PipeMeet(),
            Wait(within=HANG_AFTER_S),
            _gives("a"),
            _takes("a"),
            *_DONE,
        ],
    ),
    pipe_case(
        "K8/never-sent",
        "a request that nobody sends is asked for beside one that is sent",
        [
            *OPEN_PIPE,
            _gives("a"),
            _takes("x", 0.5),
            Wait(within=HANG_AFTER_S),
            _takes("a"),
            *_DONE,
        ],
    ),
    pipe_case(
        "K8/blocks-harmed-on-their-way",
        "a transfer's blocks come swapped, twice, not at all, with another shape",
        _harmed("swapped"),
        _harmed("repeated"),
        _harmed("lost"),
        _harmed("mismatched"),
    ),
    pipe_case(
        "K8/blocks-too-late",
        "a block comes after its lease: alone, and in the midst of the request's next transfer",
        _too_late("late"),
        _too_late("stale"),
    ),
    pipe_case(
        "K8/sender-killed",
        "the sender is killed before its blocks are asked for",
        [
            *OPEN_PIPE,
            _gives("a", blocks=_LARGE),
            Wait(within=HANG_AFTER_S),
            Fault("kill", FIRST),
            _takes("a", 2.5),
            Wait(within=HANG_AFTER_S),
        ],
    ),
    pipe_case(
        "K8/taker-killed",
        "the taker is killed before it asked: the transfer ends by its lease",
        [
            *OPEN_PIPE,
            _gives("a", 1.5, blocks=_LARGE),
            Wait(within=HANG_AFTER_S),
            Fault("kill", SECOND),
            Wait(within=HANG_AFTER_S),
            PipeMeet((FIRST,)),
            Wait(within=HANG_AFTER_S),
        ],
    ),
)
