"""The bytes of a link: types of elements, headers of transfers, labels of blocks.

Each transfer begins with one header of fixed size, sealed with the link's key. A receiver takes
nothing on trust: a header that is damaged, repeated, out of order, contradictory or larger than
allowed is refused before any memory is taken for its tensor (SPEC K6). Types are named by number,
and known without torch.
"""

import hashlib
import hmac
import math
import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from .errors import MetadataRefused

_DTYPES: tuple[tuple[str, int], ...] = (
    ("uint8", 1),
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("int64", 8),
    ("float16", 2),
    ("float32", 4),
    ("float64", 8),
    ("complex32", 4),
    ("complex64", 8),
    ("complex128", 16),
    ("bool", 1),
    ("bfloat16", 2),
    ("float8_e5m2", 1),
    ("float8_e4m3fn", 1),
    ("float8_e5m2fnuz", 1),
    ("float8_e4m3fnuz", 1),
    ("float8_e8m0fnu", 1),
    ("uint16", 2),
    ("uint32", 4),
    ("uint64", 8),
    ("float4_e2m1fn_x2", 1),
)
ITEM_BYTES: dict[str, int] = dict(_DTYPES)
"""Bytes of an element, by the type's name in torch."""
DTYPE_CODES = {name: code for code, (name, _) in enumerate(_DTYPES, 1)}
DTYPE_NAMES = {code: name for name, code in DTYPE_CODES.items()}

MAX_DIMS = 14
LABEL_BYTES = 80
TEXT_MOST = 1024
"""Most bytes of the reason of a failed transfer."""
BESIDE_MOST = 4096
"""Most bytes that go by the link when the payload itself does not."""

_FIELDS = struct.Struct(f">4sBBBBQQQ{MAX_DIMS}q{LABEL_BYTES}s")
_MAGIC = b"RKP1"
_SEAL_BYTES = 16
HEADER_BYTES = _FIELDS.size + _SEAL_BYTES
_INT64_MOST = (1 << 63) - 1


class Kind(IntEnum):
    """Kind of a transfer."""

    TENSOR = 1
    NOTHING = 2
    """None in a tensor's place."""
    FAILED = 3
    """The sender could not send this one; the reason follows as text."""
    BYE = 4


class Way(IntEnum):
    """Path of a payload."""

    INLINE = 0
    """Over the link, right after the header."""
    NCCL = 1
    CUDA_IPC = 2


@dataclass(frozen=True)
class Metadata:
    """Type and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, one after the other."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class Header:
    """Header of one transfer."""

    kind: Kind
    number: int
    metadata: Metadata | None = None
    way: Way = Way.INLINE
    follows: int = 0
    """Bytes that come right after the header by the link."""
    label: bytes = b""
    """Label of the layer above; at most `LABEL_BYTES`, padded with zeros."""

    def pack(self, key: bytes) -> bytes:
        """Encode and seal."""
        told = self.metadata
        code, shape, nbytes = (
            (DTYPE_CODES[told.dtype], told.shape, told.nbytes) if told else (0, (), 0)
        )
        what = self.kind, self.way, code, len(shape), self.number, nbytes, self.follows
        return sealed(key, what, shape, self.label)

    @classmethod
    def unpack(
        cls, raw: bytes | bytearray | memoryview, key: bytes, number: int, most: int
    ) -> "Header":
        """Decode the header of transfer `number`; MetadataRefused for anything else.

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
    """Return a sealed header with these fields, from kind to follows, be they true or not."""
    filled = (*sizes, *(0,) * (MAX_DIMS - len(sizes)))
    fields = _FIELDS.pack(_MAGIC, *what, *filled, label)
    return fields + _seal(key, fields)


def _metadata(code: int, dims: int, sizes: list[int], nbytes: int, most: int) -> Metadata:
    if code not in DTYPE_NAMES:
        raise MetadataRefused(f"there is no type {code}")
    if dims > MAX_DIMS:
        raise MetadataRefused(f"{dims} dimensions, of at most {MAX_DIMS}")
    shape = tuple(sizes[:dims])
    if any(size < 0 for size in shape) or any(sizes[dims:]):
        raise MetadataRefused(f"the shape {sizes}, of {dims} dimensions")
    if math.prod(size for size in shape if size) > _INT64_MOST:
        raise MetadataRefused(f"the shape {shape} has more elements than can be counted")
    metadata = Metadata(DTYPE_NAMES[code], shape)
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


_BLOCK_FIELDS = struct.Struct(">4sB16s16sIIdI")
_BLOCK_MAGIC = b"RKB1"
TRANSFER_ID_BYTES = 16


class BlockMessage(IntEnum):
    """Kind of a message about blocks."""

    BLOCK = 1
    READY = 2
    """The receiver has all blocks, and a caller that wants them."""
    GRANT = 3
    """The sender grants the blocks. Only now are they served, so one side alone decides."""
    FAILED = 4
    """Either side has given this transfer up."""


@dataclass(frozen=True)
class BlockLabel:
    """One message about one transfer of blocks."""

    message: BlockMessage
    transfer: bytes
    """Random number of the transfer, drawn by the sender: never used again."""
    request: bytes = bytes(16)
    """Digest of the request's id."""
    index: int = 0
    count: int = 0
    lease: float = 0.0
    """Seconds left of the lease when the block was sent."""
    checksum: int = 0
    """Checksum of the block's type and shape."""

    def pack(self) -> bytes:
        """Encode as the label of a tensor."""
        fields = self.message, self.transfer, self.request, self.index, self.count
        return _BLOCK_FIELDS.pack(_BLOCK_MAGIC, *fields, self.lease, self.checksum)

    @classmethod
    def unpack(cls, raw: bytes) -> "BlockLabel | None":
        """Decode; None if it is no such label."""
        if len(raw) != LABEL_BYTES:
            return None
        magic, message, transfer, request, index, count, lease, checksum = (
            _BLOCK_FIELDS.unpack_from(raw)
        )
        if magic != _BLOCK_MAGIC or message not in {*BlockMessage} or not 0 <= lease < float("inf"):
            return None
        return cls(BlockMessage(message), transfer, request, index, count, lease, checksum)


def request_digest(request_id: str) -> bytes:
    """Return the digest by which both sides know a request."""
    return hashlib.blake2b(request_id.encode(), digest_size=16).digest()


def shape_checksum(block: Any) -> int:
    """Return a checksum of a block's type and shape."""
    said = "None" if block is None else f"{block.dtype} {tuple(block.shape)}"
    return zlib.crc32(said.encode())
