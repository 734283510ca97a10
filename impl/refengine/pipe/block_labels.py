"""What is told with each block of a transfer, and what both sides say to each other of it."""

import hashlib
import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from .frames import LABEL_BYTES

_FIELDS = struct.Struct(">4sB16s16sIIdI")
_MAGIC = b"RKB1"
ID_BYTES = 16


class Say(IntEnum):
    """The kind of a message."""

    BLOCK = 1
    READY = 2
    """The receiver has them all, and somebody wants them."""
    GRANT = 3
    """The sender: they are yours. Only now are they served, so one party alone decides."""
    FAILED = 4
    """Either: this transfer comes to nothing."""


@dataclass(frozen=True)
class BlockLabel:
    """One message of one transfer."""

    say: Say
    transfer: bytes
    """Its own number, drawn by the sender: never used again."""
    request: bytes = bytes(16)
    """Digest of the request's id."""
    index: int = 0
    count: int = 0
    lease: float = 0.0
    """Seconds that were left of it as the block was sent."""
    looks: int = 0
    """Checksum of the block's type and shape."""

    def pack(self) -> bytes:
        """As the pipe carries it."""
        fields = self.say, self.transfer, self.request, self.index, self.count
        return _FIELDS.pack(_MAGIC, *fields, self.lease, self.looks)

    @classmethod
    def unpack(cls, raw: bytes) -> "BlockLabel | None":
        """None if it is no such label."""
        if len(raw) != LABEL_BYTES:
            return None
        magic, say, transfer, request, index, count, lease, looks = _FIELDS.unpack_from(raw)
        if magic != _MAGIC or say not in {*Say} or not 0 <= lease < float("inf"):
            return None
        return cls(Say(say), transfer, request, index, count, lease, looks)


def digest_of(request_id: str) -> bytes:
    """By which a request is known to both."""
    return hashlib.blake2b(request_id.encode(), digest_size=16).digest()


def looks_of(block: Any) -> int:
    """A checksum of its type and shape."""
    said = "None" if block is None else f"{block.dtype} {tuple(block.shape)}"
    return zlib.crc32(said.encode())
