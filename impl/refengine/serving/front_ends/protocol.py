"""What front ends and the engine's process tell each other, and its form as MessagePack."""

from __future__ import annotations

from typing import Literal

import msgspec

from ...engine import EngineClosed, EngineCounts, EngineFull, Health, RequestFailed
from ...malformed import decoded
from ..metrics import Samples

Phase = Literal["starting", "serving", "draining", "cut", "leaving"]
"""Of the whole server: its engine starts; it serves; it drains; what is open ends; all ends."""


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """From a front end: it answers from now on."""


class Submit(msgspec.Struct, frozen=True, array_like=True, tag="submit"):
    """From a front end: a request, under a number that it uses once."""

    number: int
    id: str
    prompt: tuple[int, ...]
    max_tokens: int


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag="cancel"):
    """From a front end: nobody wants this request any more."""

    number: int


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag="pulse"):
    """From a front end: a sign of life, a few times a second."""

    open: int
    """Requests of its clients that have no whole answer."""
    draining: bool
    """Whether it refuses new ones."""
    samples: Samples | None = None
    """Of its own metrics, since it was started; None: as they were."""


class Outputs(msgspec.Struct, frozen=True, array_like=True, tag="made"):
    """To a front end: more of these requests, as number, tokens and finish."""

    deltas: tuple[tuple[int, tuple[int, ...], str | None], ...]


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """To a front end: this request has ended without a finish."""

    number: int
    kind: Literal["full", "closed", "failed"]
    text: str = ""
    """The request's id; of `closed` the operation."""
    cause: str = ""
    tokens: tuple[int, ...] = ()
    waiting: int = 0
    limit: int = 0

    @classmethod
    def of(cls, number: int, error: BaseException) -> Failed:
        """What the engine raised, or ended a stream with."""
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
        """The same in the front end."""
        match self.kind:
            case "full":
                return EngineFull(self.waiting, self.limit)
            case "closed":
                return EngineClosed(self.text)
            case "failed":
                return RequestFailed(self.text or request_id, self.cause, self.tokens)


class FrontEndHealth(msgspec.Struct, frozen=True, array_like=True):
    """One front end, as `/health` has it."""

    name: str
    pid: int
    """0 while it has no process."""
    state: Literal["starting", "ready", "stuck", "dead"]
    open: int


class State(msgspec.Struct, frozen=True, array_like=True, tag="state"):
    """To every front end, a few times a second: how the whole server is."""

    phase: Phase
    cause: str
    """Why what is open ends, once it does."""
    health: Health | None
    """None while the engine starts."""
    counts: EngineCounts | None
    front_ends: tuple[FrontEndHealth, ...]
    samples: Samples
    """Of the front ends' own metrics: sums over all of them, those that have ended included."""


ToEngine = Ready | Submit | Cancel | Heartbeat
ToFrontEnd = Outputs | Failed | State

_encoder = msgspec.msgpack.Encoder()
_to_engine: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)
_to_front_end: msgspec.msgpack.Decoder[ToFrontEnd] = msgspec.msgpack.Decoder(ToFrontEnd)


def encode(message: ToEngine | ToFrontEnd) -> bytes:
    """One frame."""
    return _encoder.encode(message)


def decode_to_engine(frame: bytes) -> ToEngine:
    """What a front end sends; Malformed if it is something else."""
    return decoded(_to_engine.decode, frame)


def decode_to_front_end(frame: bytes) -> ToFrontEnd:
    """What the engine's process sends; Malformed if it is something else."""
    return decoded(_to_front_end.decode, frame)
