"""The view of a target's ring from outside, by its bytes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

Read = Callable[[int, int], bytes]
"""Function that returns so many bytes from an offset of the segment, as they are now."""


class Flags(msgspec.Struct, frozen=True):
    """Flags of one slot: written, and read by each reader."""

    written: bool
    read: tuple[bool, ...]
    number: int | None = None
    """Number of its message, where the ring has it."""


class RingView(msgspec.Struct, frozen=True):
    """State of a ring, as the bytes of its segment show it."""

    kind: str
    """Name of the layout."""
    readers: int
    slots: tuple[Flags, ...]
    closed: tuple[int, ...] = ()
    """Ranks of the readers that have closed it cleanly."""
    writer: int | None = None
    """Pid of its maker, if its name holds that."""
    starts: tuple[int, ...] = ()
    """Offset of each slot's message, if the flags do not tell one lap from the next."""


class RingDecoder(Protocol):
    """Reads segments of one layout."""

    def decode(self, name: str, size: int, mappers: int, read: Read) -> RingView | None:
        """Return the ring in this segment, or None if it is something else.

        ``mappers``: number of living processes that map it, for a layout that does not hold the
        number of its readers.
        """
        ...
