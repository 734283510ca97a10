"""Interface of a memory model: loads, stores and fences of tasks, on one flat range of bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from killpoint.interfaces import World

Namer = Callable[[int, int], str]
"""Function from an offset and a size in bytes within a segment to the name of that place."""

ALIGNED = 4096
_SHOWN = 12


class Model(ABC):
    """Bytes that tasks share. Outside of all tasks each access is immediate, without a choice.

    A load and a store are one step each, however many bytes they have: a copy is not torn by
    another one. Protocols that rely on that are judged by the tier of real processes.
    """

    title = ""
    """Name in the strength of a verdict, such as ``relaxed store order``."""

    def __init__(self, world: World, room: int = ALIGNED) -> None:
        self.world = world
        self._recording = world.recording
        self.data = bytearray(room)
        """Bytes that are visible to all tasks."""
        self._taken = self._end = 0
        """Bytes that segments take, with and without what aligns the next one."""
        self._namers: list[tuple[int, int, Namer]] = []
        self._access = world.access
        self._stored = world.stored
        self._saw = world.saw

    @abstractmethod
    def load(self, at: int, size: int) -> bytes:
        """Return the bytes that the running task sees there."""

    def byte(self, at: int) -> int:
        """Return the byte that the running task sees there; most accesses are to flags."""
        return self.load(at, 1)[0]

    @abstractmethod
    def store(self, at: int, content: bytes) -> None:
        """Store bytes by the running task."""

    def fence(self) -> None:  # noqa: B027 # a model without anything to order needs none
        """Make a full fence of the running task."""

    def state(self) -> object:
        """Return all that later loads and stores depend on, as something to be hashed."""
        return bytes(self.data[: self._end])

    def reserve(self, size: int) -> int:
        """Return the offset of a new segment of that many zeroed bytes."""
        at = self._taken
        self._end = at + size
        self._taken = -(-(at + size) // ALIGNED) * ALIGNED
        if self._taken > len(self.data):
            self.data.extend(bytes(self._taken - len(self.data)))
        return at

    def name(self, at: int, size: int, namer: Namer) -> None:
        """Give names to a segment's bytes."""
        self._namers.insert(0, (at, size, namer))

    def where(self, at: int, size: int) -> str:
        """Return the name of a place, for a person."""
        for first, length, namer in self._namers:
            if first <= at < first + length:
                return namer(at - first, size)
        return f"bytes {at}…{at + size - 1}" if size > 1 else f"byte {at}"

    def shown(self, at: int, content: bytes) -> str:
        """Return the text of a store, such as ``slot 0 written = 1``."""
        if len(content) == 1:
            value = str(content[0])
        else:
            value = content[:_SHOWN].hex(" ") + (" …" if len(content) > _SHOWN else "")
        return f"{self.where(at, len(content))} = {value}"
