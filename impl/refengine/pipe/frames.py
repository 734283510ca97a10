"""What a sender says of each transfer, in one header of fixed size, sealed with the link's key.

A receiver takes nothing on trust: a header that is damaged, repeated, out of order, contradictory
or larger than allowed is refused before any memory is taken for its tensor (SPEC K6).
"""

import hmac
import math
import struct
from dataclasses import dataclass
from enum import IntEnum

from .dtypes import CODES, ITEM_BYTES, NAMES
from .errors import MetadataRefused

MAX_DIMS = 14
LABEL_BYTES = 80
TEXT_MOST = 1024
"""Bytes of what is said about a failed transfer."""
BESIDE_MOST = 4096
"""Bytes that go by the link when the payload itself does not."""

_FIELDS = struct.Struct(f">4sBBBBQQQ{MAX_DIMS}q{LABEL_BYTES}s")
_MAGIC = b"RKP1"
_SEAL_BYTES = 16
HEADER_BYTES = _FIELDS.size + _SEAL_BYTES
_INT64_MOST = (1 << 63) - 1


class Kind(IntEnum):
    """What a header announces."""

    TENSOR = 1
    NOTHING = 2
    """None in a tensor's place."""
    FAILED = 3
    """The sender could not send this one; why, follows as text."""
    BYE = 4


class Way(IntEnum):
    """How the payload comes."""

    INLINE = 0
    """Right after the header."""
    NCCL = 1
    CUDA_IPC = 2


@dataclass(frozen=True)
class Metadata:
    """A tensor without its bytes."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Of its elements, one after the other."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class Header:
    """One transfer as it is announced."""

    kind: Kind
    number: int
    metadata: Metadata | None = None
    way: Way = Way.INLINE
    follows: int = 0
    """Bytes that come right after it by the link."""
    label: bytes = b""
    """What a layer above says of it; at most `LABEL_BYTES`, padded with zeros."""

    def pack(self, key: bytes) -> bytes:
        """As it goes over the link."""
        told = self.metadata
        code, shape, nbytes = (CODES[told.dtype], told.shape, told.nbytes) if told else (0, (), 0)
        what = self.kind, self.way, code, len(shape), self.number, nbytes, self.follows
        return sealed(key, what, shape, self.label)

    @classmethod
    def unpack(
        cls, raw: bytes | bytearray | memoryview, key: bytes, number: int, most: int
    ) -> "Header":
        """The header that announces transfer `number`; MetadataRefused for anything else.

        `most`: bytes that its tensor may have.
        """
        fields = bytes(raw[: _FIELDS.size])
        if not hmac.compare_digest(bytes(raw[_FIELDS.size :]), _seal(key, fields)):
            raise MetadataRefused("it does not bear the sender's seal")
        magic, kind, way, code, dims, said, nbytes, follows, *rest = _FIELDS.unpack(fields)
        if magic != _MAGIC:
            raise MetadataRefused("it is of another version")
        if said != number:
            raise MetadataRefused(f"transfer {number} was due, this is {said}")
        try:
            kind, way = Kind(kind), Way(way)
        except ValueError as error:
            raise MetadataRefused(f"{error}") from None
        metadata = None
        if kind is Kind.TENSOR:
            metadata = _metadata(code, dims, rest[:MAX_DIMS], nbytes, most)
        elif code or dims or nbytes:
            raise MetadataRefused(f"{kind.name} with a type, a shape or bytes")
        _check_follows(kind, way, nbytes, follows)
        return cls(kind, said, metadata, way, follows, bytes(rest[MAX_DIMS]))


def sealed(key: bytes, what: tuple[int, ...], sizes: tuple[int, ...], label: bytes) -> bytes:
    """A header with what a `Header` packs, from kind to follows, be it true or not."""
    filled = (*sizes, *(0,) * (MAX_DIMS - len(sizes)))
    fields = _FIELDS.pack(_MAGIC, *what, *filled, label)
    return fields + _seal(key, fields)


def _metadata(code: int, dims: int, sizes: list[int], nbytes: int, most: int) -> Metadata:
    if code not in NAMES:
        raise MetadataRefused(f"there is no type {code}")
    if dims > MAX_DIMS:
        raise MetadataRefused(f"{dims} dimensions, of at most {MAX_DIMS}")
    shape = tuple(sizes[:dims])
    if any(size < 0 for size in shape) or any(sizes[dims:]):
        raise MetadataRefused(f"the shape {sizes}, of {dims} dimensions")
    if math.prod(size for size in shape if size) > _INT64_MOST:
        raise MetadataRefused(f"the shape {shape} has more elements than can be counted")
    metadata = Metadata(NAMES[code], shape)
    if metadata.nbytes != nbytes:
        raise MetadataRefused(f"{nbytes} bytes for {shape} of {metadata.dtype}")
    if nbytes > most:
        raise MetadataRefused(f"{nbytes} bytes, of at most {most}")
    return metadata


def _check_follows(kind: Kind, way: Way, nbytes: int, follows: int) -> None:
    if kind is Kind.FAILED:
        fits = follows <= TEXT_MOST
    elif kind is not Kind.TENSOR:
        fits = follows == 0
    elif way is Way.INLINE:
        fits = follows == nbytes
    else:
        fits = follows <= BESIDE_MOST
    if not fits:
        raise MetadataRefused(f"{follows} bytes after a {kind.name} of {nbytes}, {way.name}")


def _seal(key: bytes, fields: bytes) -> bytes:
    return hmac.digest(key, fields, "sha256")[:_SEAL_BYTES]
