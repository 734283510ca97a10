"""What replicas, coordinator and front ends say to each other; on the wire it is MessagePack."""

from typing import Any, cast

import msgspec

from ..malformed import Malformed, decoded

MAX_ENGINES = 4096
Counts = tuple[int, int]
"""Of one replica: requests that wait, and requests that run."""


class Report(msgspec.Struct, frozen=True, array_like=True, tag="report"):
    """From a replica to the coordinator: any of these at once."""

    rank: int
    wants: int | None = None
    """It does not step, and is ready for this wave."""
    work: bool = False
    """Whether it has requests for that wave; without any it only asks whether the wave is on."""
    done: int | None = None
    """All agreed to end this wave. The lowest rank in it says so."""
    broke: int | None = None
    """Its all-reduce failed in this wave."""
    lost: tuple[int, ...] = ()
    """Ranks for want of which it failed."""
    counts: Counts | None = None


class Start(msgspec.Struct, frozen=True, array_like=True, tag="start"):
    """From the coordinator to all replicas: this wave is on. Hearing it again changes nothing."""

    wave: int
    members: tuple[int, ...]
    """The ranks that step together in it."""


class State(msgspec.Struct, frozen=True, array_like=True, tag="state"):
    """From the coordinator to all front ends."""

    wave: int
    running: bool
    counts: tuple[Counts | None, ...] | None = None
    """By rank, None for a replica that is gone. None for all: they are as they were."""


class Scale(msgspec.Struct, frozen=True, array_like=True, tag="scale"):
    """From a front end to the coordinator: there are to be so many replicas."""

    engines: int


ALL_REPLICAS = b"*"
"""The topic of what is for all replicas."""

_DIGITS = len(str(MAX_ENGINES))

_encoder = msgspec.msgpack.Encoder()
_reports = msgspec.msgpack.Decoder(Report)
_scales = msgspec.msgpack.Decoder(Scale)
_published: msgspec.msgpack.Decoder[Start | State] = msgspec.msgpack.Decoder(Start | State)
_FIELDS = {field.name: field.type for field in msgspec.structs.fields(Report)}


def encode(message: Report | Start | State | Scale) -> bytes:
    """One frame."""
    return _encoder.encode(message)


def decode_published(frame: bytes) -> Start | State:
    """What the coordinator sends; Malformed if it is something else."""
    return decoded(_published.decode, frame)


def decode_scale(frame: bytes) -> Scale | None:
    """What a front end sends; None if it is something else."""
    try:
        return decoded(_scales.decode, frame)
    except Malformed:
        return None


def decode_report(frame: bytes) -> tuple[Report | None, int]:
    """What a replica sends: what of it is valid, and how many parts are not."""
    try:
        return decoded(_reports.decode, frame), 0
    except Malformed:
        return _salvage(frame)


def _salvage(frame: bytes) -> tuple[Report | None, int]:
    try:
        raw: Any = decoded(msgspec.msgpack.decode, frame)
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
    """What a replica subscribes to beside `ALL`, and after it, so that its arrival is seen."""
    return b"r%d" % rank


def rank_of_subscription(subscription: bytes) -> int | None:
    """Whose topic a subscription or its end is about; None: nobody's."""
    digits = subscription[2:]
    if subscription[1:2] != b"r" or not digits.isdigit() or len(digits) > _DIGITS:
        return None
    return int(digits)
