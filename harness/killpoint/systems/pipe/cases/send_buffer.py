"""Cases of a pipe's buffer (K2), of sends that fail (K3), and of metadata that lie (K6)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Fault,
    Lie,
    PipeClose,
    PipeDrain,
    PipeForge,
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
    forged,
    pipe_case,
    transfer,
)
from killpoint.systems.queue.cases.builders import MIB

_NO_BYTES = Tensor("float32", (1024,), form="meta")
"""Tensor with a shape and no bytes: no target can carry it."""
_EMPTY: list[AnyStep] = [PipeDrain(), Wait(within=HANG_AFTER_S)]
_DONE: list[AnyStep] = [Wait(within=HANG_AFTER_S)]

_BUFFERS = (
    pipe_case(
        "K2/empty-after-every-tensor",
        "tensors of many sizes, None and empty ones are taken; the buffer is empty then",
        [
            *OPEN_PIPE,
            *transfer(FIRST, SECOND, [SMALL, Tensor(form="none"), LARGE, Tensor("int8", (0,))]),
            *transfer(SECOND, FIRST, [Tensor("bfloat16", (7, 9), "transposed"), SMALL]),
            *_DONE,
            *_EMPTY,
        ],
        buffer_bytes=8 * MIB,
    ),
    pipe_case(
        "K2/larger-than-the-limit",
        "tensors of 1 MiB through a buffer of 4 KiB, one after the other",
        [
            *OPEN_PIPE,
            *transfer(FIRST, SECOND, [Tensor("uint8", (MIB,), repeat=4)]),
            *_DONE,
            *_EMPTY,
        ],
        buffer_bytes=4096,
    ),
    pipe_case(
        "K2/memory-is-bounded",
        "12 tensors of 8 MiB through a buffer of 16 MiB, which nobody takes for a while",
        [
            *OPEN_PIPE,
            PipeSend(FIRST, [Tensor("uint8", (8 * MIB,), repeat=12)], same=True),
            WaitBlocked((FIRST,)),
            PipeReceive((SECOND,), 12),
            Wait(within=20.0),
            *_EMPTY,
        ],
        buffer_bytes=16 * MIB,
    ),
    pipe_case(
        "K2/send-fails-once",
        "one tensor cannot be carried; the next ones can, once the buffer has room",
        [
            *OPEN_PIPE,
            *transfer(FIRST, SECOND, [Tensor()]),
            *_DONE,
            PipeSend(FIRST, [_NO_BYTES], keep_on=True),
            *_DONE,
            PipeDrain((FIRST,), within=1.0),
            PipeSend(FIRST, [Tensor()], keep_on=True),
            Wait((FIRST,), within=3.0),
        ],
        buffer_bytes=2048,
    ),
    pipe_case(
        "K2/empty-after-a-death",
        "the taker is killed while tensors wait for it; the account is settled",
        [
            *OPEN_PIPE,
            *transfer(FIRST, SECOND, [Tensor()]),
            *_DONE,
            Fault("kill", SECOND),
            PipeSend(FIRST, [Tensor("uint8", (MIB,), repeat=3)], keep_on=True),
            Wait(within=HANG_AFTER_S),
            *_EMPTY,
        ],
        buffer_bytes=64 * MIB,
    ),
)

_FAILS = (
    pipe_case(
        "K3/send-fails-once",
        "one tensor cannot be carried: its sender is told, and so is who waits for it",
        [
            *OPEN_PIPE,
            *transfer(FIRST, SECOND, [Tensor()]),
            *_DONE,
            PipeReceive((SECOND,), 2),
            PipeSend(FIRST, [_NO_BYTES, Tensor()], keep_on=True),
            Wait((FIRST,), within=HANG_AFTER_S),
            PipeClose((FIRST,)),
            Wait(within=HANG_AFTER_S),
        ],
    ),
    pipe_case(
        "K3/last-send-fails",
        "the last tensor before the close cannot be carried",
        [
            *OPEN_PIPE,
            PipeReceive((SECOND,), 2),
            PipeSend(FIRST, [Tensor(), _NO_BYTES], keep_on=True),
            Wait((FIRST,), within=HANG_AFTER_S),
            PipeClose((FIRST,)),
            Wait(within=HANG_AFTER_S),
        ],
    ),
    pipe_case(
        "K3/first-send-fails",
        "the very first tensor cannot be carried; others were given right after it",
        [
            *OPEN_PIPE,
            PipeReceive((SECOND,), 3),
            PipeSend(FIRST, [_NO_BYTES, Tensor(repeat=3)], keep_on=True),
            Wait((FIRST,), within=HANG_AFTER_S),
            PipeClose((FIRST,)),
            Wait(within=HANG_AFTER_S),
        ],
    ),
)

_TOLD: tuple[tuple[str, str, tuple[Lie, ...]], ...] = (
    ("no-such-dtype", "a dtype that there is not", ("dtype",)),
    ("impossible-shape", "a negative size; too many dimensions", ("negative", "dimensions")),
    ("overflowing-shape", "sizes whose product leaves 64 bits", ("overflow",)),
    ("huge", "more bytes than any machine has", ("huge",)),
    ("fewer-bytes-than-told", "fewer bytes follow than were told", ("mismatch",)),
)
_LIES = tuple(
    pipe_case(f"K6/{name}", summary, *forged(*(PipeForge(FIRST, lie) for lie in lies)))
    for name, summary, lies in _TOLD
)

CASES: tuple[Case, ...] = (*_BUFFERS, *_FAILS, *_LIES)
