"""Messages between replicas, coordinator and front ends, and their form as MessagePack.

Of what strangers or broken peers send, the valid part is kept (SPEC C4).
"""

from typing import Any, cast

import msgspec

from ..base.frame_decoding import Malformed, decode_frame

MAX_ENGINES = 4096
"""Replicas that a coordinator may be scaled to."""
Counts = tuple[int, int]
"""Load of one replica: requests that wait, and requests that run."""


class Report(msgspec.Struct, frozen=True, array_like=True, tag="report"):
    """From a replica to the coordinator: any of these at once; an empty one is a heartbeat."""

    rank: int
    wants: int | None = None
    """Wave that the replica, which does not step now, is ready for."""
    work: bool = False
    """True if it has requests for that wave; without any it only asks whether the wave is on."""
    done: int | None = None
    """Wave that all members agreed to end; its lowest rank reports so."""
    broke: int | None = None
    """Wave in which its all-reduce failed."""
    lost: tuple[int, ...] = ()
    """Ranks whose missing votes made it fail."""
    counts: Counts | None = None


class Start(msgspec.Struct, frozen=True, array_like=True, tag="start"):
    """From the coordinator to all replicas: this wave is on. Receiving it again changes nothing."""

    wave: int
    members: tuple[int, ...]
    """Ranks that step together in it."""


class State(msgspec.Struct, frozen=True, array_like=True, tag="state"):
    """From the coordinator to all front ends, and to replicas as its heartbeat between waves."""

    wave: int
    running: bool
    counts: tuple[Counts | None, ...] | None = None
    """Load by rank, None for a replica that is gone. None as a whole: unchanged."""


class Scale(msgspec.Struct, frozen=True, array_like=True, tag="scale"):
    """From a front end to the coordinator: the number of replicas from the next wave on."""

    engines: int


ALL_REPLICAS = b"*"
"""Topic of messages for all replicas."""

_DIGITS = len(str(MAX_ENGINES))

_encoder = msgspec.msgpack.Encoder()
_reports = msgspec.msgpack.Decoder(Report)
_scales = msgspec.msgpack.Decoder(Scale)
_published: msgspec.msgpack.Decoder[Start | State] = msgspec.msgpack.Decoder(Start | State)
_FIELDS = {field.name: field.type for field in msgspec.structs.fields(Report)}


def encode(message: Report | Start | State | Scale) -> bytes:
    """Return the message as one frame."""
    return _encoder.encode(message)


def decode_published(frame: bytes) -> Start | State:
    """Decode a message of the coordinator; raises Malformed for anything else."""
    return decode_frame(_published.decode, frame)


def decode_scale(frame: bytes) -> Scale | None:
    """Decode a message of a front end; None for anything else."""
    try:
        return decode_frame(_scales.decode, frame)
    except Malformed:
        return None


def decode_report(frame: bytes) -> tuple[Report | None, int]:
    """Decode a replica's report: its valid parts, and the number of invalid ones."""
    try:
        return decode_frame(_reports.decode, frame), 0
    except Malformed:
        return _salvage(frame)


def _salvage(frame: bytes) -> tuple[Report | None, int]:
    try:
        raw: Any = decode_frame(msgspec.msgpack.decode, frame)
    except Malformed:
        return None, 1
    if not isinstance(raw, list) or raw[:1] != ["report"]:
        return None, 1
    parts = cast("list[Any]", raw)[1:]
    kept: dict[str, Any] = {}
    wrong = max(0, len(parts) - len(_FIELDS))
    for (name, kind), value in zip(_FIELDS.items(), parts, strict=False):
        try:
            kept[name] = msgspec.convert(value, kind)
        except msgspec.ValidationError:
            wrong += 1
    return (Report(**kept) if "rank" in kept else None), max(1, wrong)


def topic_of(rank: int) -> bytes:
    """Return the topic that a replica subscribes to after `ALL_REPLICAS`, to show its arrival."""
    return b"r%d" % rank


def rank_of_subscription(subscription: bytes) -> int | None:
    """Return the rank whose topic a subscription, or its end, names; None for any other topic."""
    digits = subscription[2:]
    if subscription[1:2] != b"r" or not digits.isdigit() or len(digits) > _DIGITS:
        return None
    return int(digits)
