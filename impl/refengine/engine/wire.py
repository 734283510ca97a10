"""The messages of front end and cores as bytes."""

import msgspec

from ..malformed import decoded
from .messages import FromCore, ToCore, Vote

_encoder = msgspec.msgpack.Encoder()
_to_core: msgspec.msgpack.Decoder[ToCore] = msgspec.msgpack.Decoder(ToCore)
_from_core: msgspec.msgpack.Decoder[FromCore] = msgspec.msgpack.Decoder(FromCore)
_votes = msgspec.msgpack.Decoder(Vote)


def encode(message: ToCore | FromCore | Vote) -> bytes:
    """One frame."""
    return _encoder.encode(message)


def to_core(frame: bytes) -> ToCore:
    """What a front end sends; Malformed if it is something else."""
    return decoded(_to_core.decode, frame)


def from_core(frame: bytes) -> FromCore:
    """What a core sends; Malformed if it is something else."""
    return decoded(_from_core.decode, frame)


def vote(frame: bytes) -> Vote:
    """What another core sends; Malformed if it is something else."""
    return decoded(_votes.decode, frame)
