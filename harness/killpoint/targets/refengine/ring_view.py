"""The reference's rings, read from outside."""

from __future__ import annotations

import struct
import sys

from killpoint.targets.ring_view import Flags, Read, RingView
from refengine.base.cache_line import LINE
from refengine.base.ownership import Owner
from refengine.ring.layout import LEFT, NUMBER, Layout

_HEAD = struct.Struct("<8sIIQI")
_MAGIC = b"refring\0"


class RefengineRings:
    """Decoder of the reference's rings, whose first line holds their sizes."""

    def decode(self, name: str, size: int, mappers: int, read: Read) -> RingView | None:
        """Return the ring; None unless the segment begins like one and is as large as it says."""
        head = read(0, _HEAD.size)
        if len(head) < _HEAD.size:
            return None
        magic, _, readers, chunk_bytes, chunks = _HEAD.unpack(head)
        if magic != _MAGIC or min(readers, chunk_bytes, chunks) < 1 or chunks > size:
            return None
        layout = Layout(readers, chunk_bytes, chunks)
        if layout.total > size:
            return None
        memory = read(0, layout.number_at(chunks))
        slots = tuple(_flags(layout, memory, slot) for slot in range(chunks))
        left = tuple(r for r in range(readers) if memory[layout.reader_state(r)] == LEFT)
        maker = Owner.named(name)
        return RingView("refengine", readers, slots, left, maker.pid if maker else None)


def _flags(layout: Layout, memory: bytes, slot: int) -> Flags:
    at = layout.number_at(slot)
    number = int.from_bytes(memory[at : at + LINE // 8], sys.byteorder) & NUMBER
    read = (bool(memory[layout.read_at(slot, r)]) for r in range(layout.n_reader))
    return Flags(bool(memory[layout.written_at(slot)]), tuple(read), number)
