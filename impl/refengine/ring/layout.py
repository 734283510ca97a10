"""Byte layout of a ring's memory: header, flags per slot, chunks.

    line 0          magic, version, readers, chunk bytes, chunks
    line 1          READERS_SLEEP   some reader is (or was) about to block
    line 2          WRITER_SLEEPS
    line 3          writer's state
    line 4 + i      reader i's state
    then per slot   [number, 8 bytes][written][read by 0]…[read by N-1], padded to 64
    then, paged     as many chunks, each padded to 64

The top 16 bits of a slot's number are the index of the chunk that holds its message; at first
slot k has chunk k.

Lines are 64 bytes, so no two parties' words share a cache line.
"""

import struct
import sys
from dataclasses import dataclass

from ..base.cache_line import LINE
from ..errors import AttachFailed

PAGE = 4096
READERS_SLEEP = 1 * LINE
WRITER_SLEEPS = 2 * LINE
WRITER_STATE = 3 * LINE
OPEN, LEFT = 0, 1
"""State of a party: a clean close stores LEFT, so its absence at an end means death."""

CHUNK_SHIFT = 48
NUMBER = (1 << CHUNK_SHIFT) - 1
"""Mask of the message's number in the number word; above it stands the chunk's index."""
_MOST_CHUNKS = 1 << (64 - CHUNK_SHIFT)

_HEAD = struct.Struct("<8sIIQI")
_MAGIC = b"refring\0"
_VERSION = 1


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


@dataclass(frozen=True)
class Layout:
    """Byte offsets for a ring of `max_chunks` slots of `max_chunk_bytes` and `n_reader` readers."""

    n_reader: int
    max_chunk_bytes: int
    max_chunks: int

    def __post_init__(self) -> None:
        if min(self.n_reader, self.max_chunk_bytes, self.max_chunks) < 1:
            raise ValueError(f"a ring needs at least one reader, byte and chunk: {self}")
        if self.max_chunks > _MOST_CHUNKS:
            raise ValueError(f"a ring has at most {_MOST_CHUNKS} chunks: {self}")

    def reader_state(self, rank: int) -> int:
        """Offset of reader `rank`'s state byte."""
        return (4 + rank) * LINE

    def number_at(self, slot: int) -> int:
        """Offset of the slot's 8-byte message number (native order, 8-aligned)."""
        return (4 + self.n_reader) * LINE + slot * _up(9 + self.n_reader, LINE)

    def written_at(self, slot: int) -> int:
        """Offset of the slot's `written` flag."""
        return self.number_at(slot) + 8

    def read_at(self, slot: int, rank: int) -> int:
        """Offset of the slot's flag "read by reader `rank`"."""
        return self.number_at(slot) + 9 + rank

    def chunk_at(self, chunk_index: int) -> int:
        """Offset of a chunk."""
        return _up(self.number_at(self.max_chunks), PAGE) + chunk_index * _up(
            self.max_chunk_bytes, LINE
        )

    def chunk_of(self, memory: memoryview, slot: int) -> int:
        """Offset of the chunk that holds the slot's message."""
        at = self.number_at(slot)
        return self.chunk_at(int.from_bytes(memory[at : at + 8], sys.byteorder) >> CHUNK_SHIFT)

    @property
    def total(self) -> int:
        """Bytes of the whole."""
        return _up(self.chunk_at(self.max_chunks), PAGE)

    def stamp(self, memory: memoryview) -> None:
        """Write the header line."""
        sizes = (self.n_reader, self.max_chunk_bytes, self.max_chunks)
        _HEAD.pack_into(memory, 0, _MAGIC, _VERSION, *sizes)

    def verify(self, memory: memoryview, name: str) -> None:
        """Raise AttachFailed unless this memory was stamped with the same sizes (SPEC R8)."""
        if len(memory) < self.total:
            raise AttachFailed(name, f"{len(memory)} bytes, {self.total} needed")
        magic, version, *sizes = _HEAD.unpack_from(memory, 0)
        if magic != _MAGIC or version != _VERSION:
            raise AttachFailed(name, "it is not a ring of this version")
        if sizes != [self.n_reader, self.max_chunk_bytes, self.max_chunks]:
            raise AttachFailed(name, f"its sizes are {sizes}, the handle says {self}")


def chunk_views(layout: Layout, memory: memoryview) -> list[memoryview]:
    """Return a view of every chunk."""
    starts = (layout.chunk_at(k) for k in range(layout.max_chunks))
    return [memory[at : at + layout.max_chunk_bytes] for at in starts]
