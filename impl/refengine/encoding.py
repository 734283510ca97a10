"""Objects to buffers and back: pickle 5 with large buffers out of band (SPEC 3, Q1, Q3, Q4).

Inline, a slot holds `[0][count, 2][length, 4][bytes]…`, big-endian, the pickle first: that is
`total + 1` bytes, so a message of `total == max_chunk_bytes - 1` fills its chunk exactly. An
overflow payload has the same form; its slot holds only a marker.

Where the chunk has room left the pickle counts some bytes more, which pickle ignores, so that the
first large buffer is aligned. Else it may lie a few bytes behind its source, modulo a page, which
some processors copy ten times slower (`rep movsb`, below 1 MiB).
"""

import pickle
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import EncodingLimit, Unencodable
from .layout import LINE
from .pickling import Buffer, Pickler, loads
from .recycling import Recycler

OUT_OF_BAND_FROM = 16 << 10
"""Bytes from which on a buffer is copied straight into the chunk, and not by way of the pickle."""
INLINE, OVERFLOW, FRAGMENT = 0, 1, 2
SMALLEST_TOTAL = 6  # plus the pickle: `total_of` for a message without other buffers
SMALLEST_CHUNK = 32

_COUNT = struct.Struct(">BH")
_LENGTH = struct.Struct(">I")
_ONE = struct.Struct(">BHI")
_MARKER = struct.Struct(">BQQ")
_BARE_BYTES = pickle.dumps(pickle.PickleBuffer(b""), 5, buffer_callback=lambda _: False)
"""The pickle of a lone `bytes` that travels out of band: pickle itself would copy it in band."""
_SHORT_BYTES = [b"\x80\x05C" + bytes([n]) for n in range(256)]
_SIMPLE = {bytes, str, int, float, bool, type(None)}

Raw = list[bytes | memoryview]
"""A message's buffers as they arrived, the pickle first."""


@dataclass(frozen=True)
class Limits:
    """What the format carries; smaller ones make the refusals testable."""

    max_buffers: int = (1 << 16) - 1
    max_buffer_bytes: int = (1 << 32) - 1


def total_of(sizes: Sequence[int]) -> int:
    """SPEC 3's `total` for a pickle of sizes[0] and out-of-band buffers of the others."""
    return 2 + sum(sizes) + 4 * len(sizes)


def overflows(total: int, max_chunk_bytes: int) -> bool:
    """Whether a message of this total goes by the overflow path."""
    return total >= max_chunk_bytes


def judge(sizes: Sequence[int], limits: Limits) -> None:
    """Raise EncodingLimit for what the format cannot carry."""
    if len(sizes) > limits.max_buffers:
        raise EncodingLimit("the number of buffers", len(sizes), limits.max_buffers)
    largest = max(sizes)
    if largest > limits.max_buffer_bytes:
        raise EncodingLimit("a buffer's length", largest, limits.max_buffer_bytes)


class Encoder:
    """Pickles with one kept C pickler (a new one per message costs a microsecond more)."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._most_bytes = limits, limits.max_buffer_bytes
        self._modules = 0
        self._fresh()

    def encode(self, obj: object) -> list[Buffer]:
        """The pickle, then its out-of-band buffers, which still are the caller's memory."""
        buffers: list[Buffer]
        try:
            if type(obj) not in _SIMPLE:
                if len(sys.modules) != self._modules:
                    self._fresh()  # numpy or torch may be among the new ones
                buffers = self._dumps(obj)
            elif type(obj) is bytes and len(obj) >= OUT_OF_BAND_FROM:
                buffers = [_BARE_BYTES, memoryview(obj)]
            else:
                buffers = [pickle.dumps(obj, 5)]
        except Exception as error:
            self._fresh()
            raise Unencodable(type(obj).__name__) from error
        except BaseException:
            self._fresh()
            raise
        if len(buffers) > 1 or len(buffers[0]) > self._most_bytes:
            judge([len(b) for b in buffers], self._limits)
        return buffers

    def _fresh(self) -> None:
        self._modules = len(sys.modules)
        self._dumps = Pickler(OUT_OF_BAND_FROM).dumps


def is_bare(buffers: Sequence[Buffer]) -> bool:
    """Whether it is a lone large `bytes`: a reader makes it out of the chunk in one copy."""
    return len(buffers) == 2 and buffers[0] is _BARE_BYTES


def put(buffers: Sequence[Buffer], into: memoryview, spare: int = 0) -> None:
    """Lay an inline message into a chunk (or an overflow payload into its frame).

    `spare`: how many bytes more than the message's there are; some may be used to align it.
    """
    main = buffers[0]
    if len(buffers) == 1:
        _ONE.pack_into(into, 0, INLINE, 1, len(main))
        into[7 : 7 + len(main)] = main
        return
    _COUNT.pack_into(into, 0, INLINE, len(buffers))
    at = _COUNT.size
    behind = 0
    if spare and buffers[0] is not _BARE_BYTES:  # which is known by its pickle
        behind = -(_ONE.size + len(buffers[0]) + _LENGTH.size) % LINE
        if behind > spare:
            behind = 0
    for buffer in buffers:
        _LENGTH.pack_into(into, at, len(buffer) + behind)
        into[at + 4 : at + 4 + len(buffer)] = buffer
        at += 4 + len(buffer) + behind
        behind = 0


def header_of(index: int, count: int, nbytes: int) -> bytes:
    """What `put` lays before a message's buffer of this index, one of `count`."""
    length = _LENGTH.pack(nbytes)
    return length if index else _COUNT.pack(INLINE, count) + length


def put_one(chunk: memoryview, main: Buffer) -> None:
    """`put` for a message of one buffer."""
    size = len(main)
    _ONE.pack_into(chunk, 0, INLINE, 1, size)
    chunk[7 : 7 + size] = main


def take_one(chunk: memoryview) -> bytes | None:
    """`take` for an inline message of one buffer; None for any other."""
    kind, count, size = _ONE.unpack_from(chunk, 0)
    return chunk[7 : 7 + size].tobytes() if count == 1 and kind == INLINE else None


def encode_short(obj: bytes) -> bytes | None:
    """The pickle of short `bytes`, without the frame and the memo that nobody needs."""
    return _SHORT_BYTES[len(obj)] + obj + b"." if len(obj) < 256 else None


def take(chunk: memoryview, memory: Recycler | None = None) -> Raw:
    """Copy an inline message out; nothing of it aliases the chunk (SPEC R6).

    Out-of-band buffers come in writable `memory` (None: fresh), so that arrays over them are
    writable; the content of a lone `bytes` comes as what it is.
    """
    buffers = split(chunk)
    return [buffers[0], *(_copied(buffer, memory) for buffer in buffers[1:])]


def split(message: memoryview) -> Raw:
    """An inline message's buffers where they lie; only the pickle and lone `bytes` are copied.

    For memory that is this message's own and writable.
    """
    _, count, length = _ONE.unpack_from(message, 0)
    main = bytes(message[7 : 7 + length])
    buffers: Raw = [main]
    at = 7 + length
    for _ in range(count - 1):
        (length,) = _LENGTH.unpack_from(message, at)
        part = message[at + 4 : at + 4 + length]
        buffers.append(bytes(part) if main == _BARE_BYTES else part)
        at += 4 + length
    return buffers


def _copied(buffer: bytes | memoryview, memory: Recycler | None) -> bytes | memoryview:
    if isinstance(buffer, bytes):
        return buffer
    if memory is None:
        return memoryview(bytearray(buffer))
    copy = memory.take(len(buffer))
    copy[:] = buffer
    return copy


def put_marker(into: memoryview, payload_id: int, nbytes: int) -> None:
    """Lay an overflow marker into a chunk: which payload to await, and its size."""
    _MARKER.pack_into(into, 0, OVERFLOW, payload_id, nbytes)


def marker(chunk: memoryview) -> tuple[int, int]:
    """(payload id, bytes) of the marker in a chunk whose first byte is OVERFLOW."""
    _, payload_id, nbytes = _MARKER.unpack_from(chunk, 0)
    return payload_id, nbytes


def decode(buffers: Raw) -> Any:
    """The object again."""
    return loads(buffers[0], buffers[1:])
