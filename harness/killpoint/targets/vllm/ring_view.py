"""vLLM's rings (and SGLang's, which are laid out alike), read from outside.

Chunks first, then per slot one byte "written" and one "read" for each reader. The segment holds no
number of slots or readers: they are inferred from its size (SPEC 1).
"""

from __future__ import annotations

from collections.abc import Iterator

from killpoint.targets.ring_view import Flags, Read, RingView

_PREFIX = "psm_"
"""Prefix of the names that Python's ``SharedMemory`` gives."""
_MIB = 1 << 20
_SLOTS = (10, 6, 8, 12, 16, 20, 32, 64, 4, 5, 3, 2, 1)
"""Numbers of slots to try: the default first."""
_MOST_READERS = 64


class VllmRings:
    """Decoder that infers the sizes from whole KiB of chunk, and from flags that are 0 or 1."""

    def decode(self, name: str, size: int, mappers: int, read: Read) -> RingView | None:
        """Return the ring by the likeliest inference; None if there is none."""
        if not name.startswith(_PREFIX):
            return None
        for readers, slots, chunk in sorted(_explanations(size), key=lambda e: _odds(e, mappers)):
            flags = read(slots * chunk, slots * (1 + readers))
            if len(flags) == slots * (1 + readers) and set(flags) <= {0, 1}:
                width = 1 + readers
                rows = [flags[at : at + width] for at in range(0, len(flags), width)]
                found = tuple(Flags(bool(row[0]), tuple(map(bool, row[1:]))) for row in rows)
                starts = tuple(range(0, slots * chunk, chunk))
                return RingView("vllm", readers, found, starts=starts)
        return None


def _explanations(size: int) -> Iterator[tuple[int, int, int]]:
    """Yield readers, slots and chunk bytes that make a segment of this size."""
    for slots in _SLOTS:
        for readers in range(1, _MOST_READERS + 1):
            rest = size - slots * (1 + readers)
            if rest > 0 and rest % (slots * 1024) == 0:
                yield readers, slots, rest // slots


def _odds(explanation: tuple[int, int, int], mappers: int) -> tuple[bool, bool, int, int]:
    """Return a key, smaller if likelier: whole MiB, readers for all mappers, default slots."""
    readers, slots, chunk = explanation
    return chunk % _MIB != 0, readers < mappers - 1, _SLOTS.index(slots), readers
