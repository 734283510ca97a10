"""Messages between front ends and the engine's process, and their form as MessagePack."""

from __future__ import annotations

from typing import Literal

import msgspec

from ...base.frame_decoding import decode_frame
from ...engine import EngineClosed, EngineCounts, EngineFull, Health, RequestFailed
from ..metrics import Samples

Phase = Literal["starting", "serving", "draining", "cut", "leaving"]
"""Phase of the whole server; in "cut" open requests are ended, in "leaving" all processes."""


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """From a front end: it answers from now on."""


class Submit(msgspec.Struct, frozen=True, array_like=True, tag="submit"):
    """From a front end: a request, under a number that it uses once."""

    number: int
    id: str
    prompt: tuple[int, ...]
    max_tokens: int


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag="cancel"):
    """From a front end: cancel this request."""

    number: int


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag="pulse"):
    """From a front end: a heartbeat, a few times a second."""

    open: int
    """Number of its clients' requests without a complete response."""
    draining: bool
    """True if it refuses new requests."""
    samples: Samples | None = None
    """Samples of its own metrics since its start; None: unchanged."""


class Outputs(msgspec.Struct, frozen=True, array_like=True, tag="made"):
    """To a front end: more tokens of requests, as number, tokens and finish."""

    deltas: tuple[tuple[int, tuple[int, ...], str | None], ...]


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """To a front end: this request has ended without a finish."""

    number: int
    kind: Literal["full", "closed", "failed"]
    text: str = ""
    """Id of the request; for `closed` the operation."""
    cause: str = ""
    tokens: tuple[int, ...] = ()
    waiting: int = 0
    limit: int = 0

    @classmethod
    def of(cls, number: int, error: BaseException) -> Failed:
        """Return the message for an error that the engine raised, or ended a stream with."""
        match error:
            case EngineFull():
                return cls(number, "full", waiting=error.waiting, limit=error.limit)
            case EngineClosed():
                return cls(number, "closed", error.operation)
            case RequestFailed():
                known = error.request_id, error.cause, error.tokens_so_far
                return cls(number, "failed", *known)
            case _:
                return cls(number, "failed", cause=f"{type(error).__name__}: {error}")

    def error(self, request_id: str) -> EngineFull | EngineClosed | RequestFailed:
        """Return the error that this message stands for."""
        match self.kind:
            case "full":
                return EngineFull(self.waiting, self.limit)
            case "closed":
                return EngineClosed(self.text)
            case "failed":
                return RequestFailed(self.text or request_id, self.cause, self.tokens)


class FrontEndHealth(msgspec.Struct, frozen=True, array_like=True):
    """Health of one front end, as in `/health`."""

    name: str
    pid: int
    """0 while it has no process."""
    state: Literal["starting", "ready", "stuck", "dead"]
    open: int


class State(msgspec.Struct, frozen=True, array_like=True, tag="state"):
    """To every front end, a few times a second: the state of the whole server."""

    phase: Phase
    cause: str
    """Reason for which open requests are ended, in that phase."""
    health: Health | None
    """None while the engine starts."""
    counts: EngineCounts | None
    front_ends: tuple[FrontEndHealth, ...]
    samples: Samples
    """Sums of the front ends' own metrics, ended ones included."""


ToEngine = Ready | Submit | Cancel | Heartbeat
ToFrontEnd = Outputs | Failed | State

_encoder = msgspec.msgpack.Encoder()
_to_engine: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)
_to_front_end: msgspec.msgpack.Decoder[ToFrontEnd] = msgspec.msgpack.Decoder(ToFrontEnd)


def encode(message: ToEngine | ToFrontEnd) -> bytes:
    """Return the message as one frame."""
    return _encoder.encode(message)


def decode_to_engine(frame: bytes) -> ToEngine:
    """Decode a front end's message; raises Malformed for anything else."""
    return decode_frame(_to_engine.decode, frame)


def decode_to_front_end(frame: bytes) -> ToFrontEnd:
    """Decode a message of the engine's process; raises Malformed for anything else."""
    return decode_frame(_to_front_end.decode, frame)
