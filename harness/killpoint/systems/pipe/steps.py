"""Steps of a pipe that carries tensors from each rank to the next (SPEC 6)."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

from killpoint.systems.step import Seconds, Step, Times

PipeVerb = Literal["pipe-open", "pipe-send", "pipe-receive", "pipe-close"]
CarrierVerb = Literal["carry"]
"""Work of the target's own threads in a role, from its first send or receive until its close: a
point of this op counts the lines of all of them together."""

Dtype = Literal[
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
Layout = Literal["plain", "transposed", "stepped", "expanded", "offset", "conjugate", "grad"]
"""Memory layout of a tensor: row by row; its dimensions reversed; every second element of a larger
one; one row that is all rows; behind the begin of its storage; its conjugate yet to be taken
(complex only); with a gradient asked for (floating only)."""
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
Form = Literal["tensor", "none", "meta"]
"""``meta``: a tensor without bytes, as torch has them. It has a dtype and a shape; to transfer it
fails."""
Lie = Literal["dtype", "negative", "dimensions", "overflow", "huge", "mismatch"]
"""False statement of a peer about a tensor: a dtype that does not exist; a negative size; more
dimensions than allowed; sizes whose product leaves 64 bits; more bytes than a machine has; more
bytes than follow."""
LIES: tuple[Lie, ...] = get_args(Lie)
Forgery = Literal["swapped", "repeated", "lost", "mismatched", "late", "stale"]
"""Harm to a transfer's blocks in transit: the first two change places; the first comes twice; the
second does not come; the first comes with another shape; the last comes after the lease, alone, or
in the midst of the next transfer."""

Extent = Annotated[int, msgspec.Meta(ge=0, le=1 << 33)]


class Tensor(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """One tensor to be sent, or a run of them with the same shape and other bytes."""

    dtype: Dtype = "float32"
    shape: tuple[Extent, ...] = (16,)
    layout: Layout = "plain"
    form: Form = "tensor"
    repeat: Times = 1
    device: Literal["", "cpu", "cuda"] = ""
    """Device of the tensor; empty: that of the pipe's tensors."""


class PipeOpen(Step, tag="pipe-open"):
    """Ranks make the pipe; each goes on once all have joined."""

    roles: tuple[str, ...] = ("all",)
    timeout: Seconds | None = None


class PipeSend(Step, tag="pipe-send"):
    """A rank sends to the next one."""

    role: str
    tensors: list[Tensor]
    timeout: Seconds | None = None
    mutate: bool = False
    """Overwrite each tensor right after its call has returned."""
    keep_on: bool = False
    """Go on with the next tensor after one that could not be sent."""
    same: bool = False
    """Send one tensor again and again in a run; the role's memory is measured around the sends."""
    beside: bool = False
    """Send in a second thread, as for :class:`PipeReceive`."""


class PipeReceive(Step, tag="pipe-receive"):
    """Ranks receive from the rank before them."""

    roles: tuple[str, ...]
    count: Times = 1
    timeout: Seconds | None = None
    keep_on: bool = False
    """Go on after a call that raised (each such call counts towards ``count``)."""
    beside: bool = False
    """Receive in a second thread; the step is done once that thread waits inside its first call."""


class PipeMeet(Step, tag="pipe-meet"):
    """Roles wait for their second threads."""

    roles: tuple[str, ...] = ("all",)


class PipeDrain(Step, tag="pipe-drain"):
    """Roles poll the bytes that their pipe still holds, until none are left or the time is over."""

    roles: tuple[str, ...] = ("all",)
    within: Seconds = 3.0


class PipeForge(Step, tag="pipe-forge"):
    """A rank makes a false statement about a tensor to the next one, by the target's own wire."""

    role: str
    lie: Lie


class PipeClose(Step, tag="pipe-close"):
    """A clean close, then the last reference is dropped."""

    roles: tuple[str, ...] = ("all",)
    timeout: Seconds | None = None


class BlocksSend(Step, tag="blocks-send"):
    """A rank sends a request's blocks to the next one, then overwrites them: they are free."""

    role: str
    request: str
    blocks: list[Tensor]
    lease: Seconds = 5.0
    beside: bool = False
    """Send in a second thread, as for :class:`PipeReceive`."""


class BlocksReceive(Step, tag="blocks-receive"):
    """Ranks receive a request's blocks."""

    roles: tuple[str, ...]
    request: str
    timeout: Seconds | None = None
    beside: bool = False


class BlocksForge(Step, tag="blocks-forge"):
    """The next blocks that a rank sends are harmed on the target's own wire."""

    role: str
    how: Forgery


PipeStep = (
    PipeOpen
    | PipeSend
    | PipeReceive
    | PipeMeet
    | PipeDrain
    | PipeForge
    | PipeClose
    | BlocksSend
    | BlocksReceive
    | BlocksForge
)
