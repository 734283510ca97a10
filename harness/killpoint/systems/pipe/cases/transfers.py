"""Cases of pipes: what arrives (K1), what was overwritten (K5), traffic in all directions (K7)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    DTYPES,
    LAYOUTS,
    AnyStep,
    PipeMeet,
    PipeReceive,
    PipeSend,
    Tensor,
    Wait,
)
from killpoint.systems.pipe.cases.builders import (
    FIRST,
    HANG_AFTER_S,
    LARGE,
    OPEN_PIPE,
    SECOND,
    SMALL,
    count,
    pipe_case,
    transfer,
)
from killpoint.systems.pipe.tensor_fuzz import fuzz_tensors

_NONE = Tensor(form="none")
_EVERY = [Tensor(dtype, (3, 5), layout) for dtype in DTYPES[:-2] for layout in LAYOUTS]
_SMALL_FLOATS = [Tensor(dtype, (3, 5), layout) for dtype in DTYPES[-2:] for layout in LAYOUTS]
_SHAPES: list[Tensor] = [
    Tensor("float32", shape)
    for shape in (
        (),
        (0,),
        (3, 0, 2),
        (1,),
        (1,) * 14,
        (2, 1, 3, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 3),
        (65_537,),
    )
]
_MIXED = [SMALL, _NONE, LARGE, _NONE, Tensor("int8", (0,)), Tensor("float64", ()), SMALL, LARGE]
_DONE: list[AnyStep] = [Wait(within=8.0)]

_ARRIVALS = (
    pipe_case(
        "K1/every-dtype-and-layout",
        "each dtype in each layout, one after the other",
        [*OPEN_PIPE, *transfer(FIRST, SECOND, _EVERY), *_DONE],
    ),
    pipe_case(
        "K1/eight-bit-floats",
        "the two floats of 8 bits that KV caches are kept in, in each layout",
        [*OPEN_PIPE, *transfer(FIRST, SECOND, _SMALL_FLOATS), *_DONE],
    ),
    pipe_case(
        "K1/every-shape",
        "no dimension, 14 of them, none of any; both ways",
        [
            *OPEN_PIPE,
            *transfer(FIRST, SECOND, _SHAPES),
            *transfer(SECOND, FIRST, _SHAPES),
            *_DONE,
        ],
    ),
    pipe_case(
        "K1/large-and-none",
        "large ones, small ones and None by turns, also past the buffer's limit",
        [*OPEN_PIPE, *transfer(FIRST, SECOND, _MIXED), *transfer(SECOND, FIRST, _MIXED), *_DONE],
        buffer_bytes=1 << 20,
    ),
    pipe_case(
        "K1/three-ranks",
        "around a ring of three",
        [
            *OPEN_PIPE,
            *transfer("pipe-0", "pipe-1", [SMALL, LARGE]),
            *transfer("pipe-1", "pipe-2", [SMALL, LARGE]),
            *transfer("pipe-2", "pipe-0", [SMALL, LARGE]),
            *_DONE,
        ],
        size=3,
    ),
    Case(
        "K1/any-tensors",
        "tensors that Hypothesis chooses: dtype, shape, layout, None; limits; two and three ranks",
        lambda case_run: fuzz_tensors(case_run, "K1/any-tensors", 150 if case_run.full else 8),
        frozenset({"pipe"}),
    ),
)

_MANY_LARGE = Tensor("float32", (1 << 20,), repeat=6)
_OVERWRITTEN = (
    pipe_case(
        "K5/overwritten-after-send",
        "each tensor of 4 MiB is overwritten as soon as its send has returned",
        [
            *OPEN_PIPE,
            PipeSend(FIRST, [_MANY_LARGE], mutate=True),
            PipeReceive((SECOND,), 6),
            *_DONE,
        ],
        buffer_bytes=64 << 20,
    ),
    pipe_case(
        "K5/overwritten-before-it-is-taken",
        "small and large ones are overwritten while nobody takes anything yet",
        [
            *OPEN_PIPE,
            PipeSend(
                FIRST, [Tensor(repeat=4), _MANY_LARGE, Tensor("bool", (70_000,))], mutate=True
            ),
            Wait(within=HANG_AFTER_S),
            PipeReceive((SECOND,), 11),
            *_DONE,
        ],
        buffer_bytes=64 << 20,
    ),
    pipe_case(
        "K5/views-overwritten-after-send",
        "views of larger storages are overwritten, with all around them",
        [
            *OPEN_PIPE,
            PipeSend(
                FIRST,
                [Tensor("int32", (300, 900), layout, repeat=2) for layout in LAYOUTS[:5]],
                mutate=True,
            ),
            PipeReceive((SECOND,), 10),
            *_DONE,
        ],
        buffer_bytes=64 << 20,
    ),
)


def _receives_first(roles: tuple[str, ...], batch: list[Tensor]) -> list[AnyStep]:
    """Every rank waits for a tensor, in a thread of its own, before any of them sends."""
    return [
        *OPEN_PIPE,
        PipeReceive(roles, count(batch), beside=True),
        Wait(within=HANG_AFTER_S),
        *(PipeSend(role, batch) for role in roles),
        Wait(within=HANG_AFTER_S),
        PipeMeet(roles),
        Wait(within=HANG_AFTER_S),
    ]


_BOTH_WAYS = (
    pipe_case(
        "K7/both-receive-first",
        "both ranks wait for a tensor before either sends one",
        _receives_first((FIRST, SECOND), [Tensor()]),
    ),
    pipe_case(
        "K7/both-directions-at-once",
        "many large ones in each direction at the same time, past the buffer's limit",
        _receives_first((FIRST, SECOND), [Tensor("uint8", (1 << 20,), repeat=12), _NONE]),
        buffer_bytes=2 << 20,
    ),
    pipe_case(
        "K7/ring-receives-first",
        "all three ranks of a ring wait before any of them sends",
        _receives_first(("pipe-0", "pipe-1", "pipe-2"), [SMALL, LARGE]),
        size=3,
        buffer_bytes=1 << 20,
    ),
)

CASES: tuple[Case, ...] = (*_ARRIVALS, *_OVERWRITTEN, *_BOTH_WAYS)
