"""How a target's ring is read from outside, by its bytes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

Read = Callable[[int, int], bytes]
"""So many bytes from an offset of the segment, as they are now."""


class Flags(msgspec.Struct, frozen=True):
    """One slot: whether it is written, and by whom it was read."""

    written: bool
    read: tuple[bool, ...]
    number: int | None = None
    """Of its message, where the ring says."""


class RingView(msgspec.Struct, frozen=True):
    """What the bytes of a segment say of a ring."""

    kind: str
    """Whose layout it is."""
    readers: int
    slots: tuple[Flags, ...]
    closed: tuple[int, ...] = ()
    """Readers that have closed it cleanly."""
    writer: int | None = None
    """The pid of who made it, if its name tells."""
    starts: tuple[int, ...] = ()
    """Where each slot's message begins, if the flags do not tell one round from the next."""


class RingDecoder(Protocol):
    """Reads segments of one layout."""

    def decode(self, name: str, size: int, mappers: int, read: Read) -> RingView | None:
        """The ring in this segment, or None if it is something else.

        ``mappers``: how many living processes map it, for a layout that does not say how many
        readers it has.
        """
        ...
