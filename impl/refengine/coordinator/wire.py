"""Messages as bytes; of what strangers or broken peers send, the valid part is kept (SPEC C4)."""

from typing import Any, cast

import msgspec

from ..malformed import Malformed, decoded
from .coordinator_wave import MOST_ENGINES
from .messages import Report, Scale, Start, State

ALL = b"*"
"""The topic of what is for all replicas."""

_DIGITS = len(str(MOST_ENGINES))

_encoder = msgspec.msgpack.Encoder()
_reports = msgspec.msgpack.Decoder(Report)
_scales = msgspec.msgpack.Decoder(Scale)
_news: msgspec.msgpack.Decoder[Start | State] = msgspec.msgpack.Decoder(Start | State)
_FIELDS = {field.name: field.type for field in msgspec.structs.fields(Report)}


def encode(message: Report | Start | State | Scale) -> bytes:
    """One frame."""
    return _encoder.encode(message)


def news(frame: bytes) -> Start | State:
    """What the coordinator sends; Malformed if it is something else."""
    return decoded(_news.decode, frame)


def scale(frame: bytes) -> Scale | None:
    """What a front end sends; None if it is something else."""
    try:
        return decoded(_scales.decode, frame)
    except Malformed:
        return None


def report(frame: bytes) -> tuple[Report | None, int]:
    """What a replica sends: what of it is valid, and how many parts are not."""
    try:
        return decoded(_reports.decode, frame), 0
    except Malformed:
        return _salvaged(frame)


def _salvaged(frame: bytes) -> tuple[Report | None, int]:
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


def topic(rank: int) -> bytes:
    """What a replica subscribes to beside `ALL`, and after it, so that its arrival is seen."""
    return b"r%d" % rank


def rank_of(subscription: bytes) -> int | None:
    """Whose topic a subscription or its end is about; None: nobody's."""
    digits = subscription[2:]
    if subscription[1:2] != b"r" or not digits.isdigit() or len(digits) > _DIGITS:
        return None
    return int(digits)
