"""Frames between ranks and their host: a fixed head, then a body.

The host passes frames on as they are and unpickles no body; a rank decodes one in the call that
asked for the object (SPEC S3).
"""

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from ..base.serialization import Encoder, Limits, total_of, write_message

_HEAD = struct.Struct(">BIIQ")
_LENGTH = struct.Struct(">Q")
_RANK = struct.Struct(">I")
_LIMITS = Limits()
HEAD_BYTES = _HEAD.size


class Kind(IntEnum):
    """First byte of a frame. `target` is the rank for a LETTER, the channel of a barrier below."""

    LETTER = 1  # an object from one rank to one other
    CAST = 2  # an object from one rank to all others
    COME = 3  # a rank has come to a barrier or gather, with its object
    WITHDRAW = 4  # the rank waits no longer, as if it had not come
    ASK = 5  # the rank asks which ranks have come, now and at each change
    WHO = 6  # the host's answer: the ranks that have come, and those that have given up
    MET = 7  # all have come: every object, in rank order
    GONE = 8  # the host reports a rank's end
    LEAVING = 9  # the host leaves; frames sent before a rank reads this are still passed on
    SEEN = 10  # a rank has read LEAVING, and sends nothing further


class Channel(IntEnum):
    """Purpose of a barrier."""

    START = 0
    BARRIER = 1
    GATHER = 2


class Frame(NamedTuple):
    """One message of a connection, `source` being the rank that it began at."""

    kind: Kind
    source: int
    target: int
    number: int
    body: memoryview


def pack(kind: Kind, source: int, target: int = 0, number: int = 0, body: bytes = b"") -> bytes:
    """Encode a frame."""
    return _HEAD.pack(kind, source, target, number) + body


def pack_object(kind: Kind, source: int, target: int, number: int, obj: object) -> bytearray:
    """Encode a frame with a copy of `obj`: what the caller changes later is not sent (SPEC Q3)."""
    buffers = Encoder(_LIMITS).encode(obj)
    raw = bytearray(HEAD_BYTES + 1 + total_of([len(b) for b in buffers]))
    _HEAD.pack_into(raw, 0, kind, source, target, number)
    write_message(buffers, memoryview(raw)[HEAD_BYTES:])
    return raw


def unpack(raw: bytes | bytearray | memoryview) -> Frame:
    """Decode a frame; ValueError for what is none."""
    if len(raw) < HEAD_BYTES:
        raise ValueError(f"a frame has at least {HEAD_BYTES} bytes, not {len(raw)}")
    kind, source, target, number = _HEAD.unpack_from(raw)
    return Frame(Kind(kind), source, target, number, memoryview(raw)[HEAD_BYTES:])


def pack_bodies(bodies: Sequence[bytes | memoryview]) -> bytes:
    """Join several bodies into one."""
    parts: list[bytes | memoryview] = []
    for body in bodies:
        parts += (_LENGTH.pack(len(body)), body)
    return b"".join(parts)


def unpack_bodies(raw: memoryview) -> list[memoryview]:
    """Split a body that `pack_bodies` has joined."""
    bodies: list[memoryview] = []
    at = 0
    while at < len(raw):
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        bodies.append(raw[at : at + length])
        at += length
    return bodies


def pack_ranks(ranks: Iterable[int]) -> bytes:
    """Encode ranks as a body."""
    return b"".join(_RANK.pack(rank) for rank in ranks)


def unpack_ranks(raw: memoryview) -> list[int]:
    """Decode a body of ranks."""
    return [rank for (rank,) in _RANK.iter_unpack(raw)]
