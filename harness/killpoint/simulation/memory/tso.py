"""Total store order, as of x86: each task's stores pass through a queue of its own.

A task sees its own stores at once, others see them once they have drained, in order (Owens,
Sarkar and Sewell 2009). When they do is the surroundings' choice; a fence waits for all.
"""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.seams import World
from killpoint.simulation.memory.model import Model

Entry = tuple[int, bytes]


class TotalStoreOrder(Model):
    """Loads may pass older stores of the same task; nothing else is reordered."""

    title = "total store order (x86)"

    def __init__(self, world: World, room: int = 1 << 16) -> None:
        super().__init__(world, room)
        self._buffers: dict[str, list[Entry]] = {}
        self._offered: list[Drain] | None = []
        """What may drain now; None: to be found out."""
        world.add(self)

    def load(self, at: int, size: int) -> bytes:
        """The newest of the task's own stores, or else what everybody sees."""
        self._point()
        content = self.data[at : at + size]
        world = self.world
        buffer = self._buffers.get(world.current)
        if buffer:
            for start, stored in buffer:
                if start < at + size and at < start + len(stored):
                    lay(stored, start, content, at)
        if world.recording:
            world.note(f"reads {self.shown(at, bytes(content))}")
        return bytes(content)

    def store(self, at: int, content: bytes) -> None:
        """Into the queue, which nobody else sees: what matters is when it comes out."""
        world = self.world
        name = world.current
        if name == "-":
            self.data[at : at + len(content)] = content
            return
        self._buffers.setdefault(name, []).append((at, bytes(content)))
        self._offered = None
        self._moved()
        if world.recording:
            world.note(f"stores {self.shown(at, content)}, not visible yet")

    def fence(self) -> None:
        """The task's queue drains, a step for each store."""
        name = self.world.current
        buffer = self._buffers.get(name)
        while buffer:
            self._point()
            if buffer:
                entry = buffer[0]
                self.drain(name, entry)
                if self.world.recording:
                    self.world.note(f"fence: visible is {self.shown(*entry)}")

    def actions(self) -> Sequence[Drain]:
        """A drain of one store by each task that has any."""
        if self._offered is None:
            self._offered = [
                Drain(self, name, entry)
                for name, buffer in self._buffers.items()
                for entry in self._next_of(buffer)
            ]
        return self._offered

    def drain(self, name: str, entry: Entry) -> None:
        """One store becomes visible."""
        self._buffers[name].remove(entry)
        at, content = entry
        self.data[at : at + len(content)] = content
        self._offered = None
        self._moved()

    def _next_of(self, buffer: list[Entry]) -> list[Entry]:
        return buffer[:1]


class Drain:
    """A buffered store becomes visible to all."""

    __slots__ = ("_entry", "_model", "_task")

    def __init__(self, model: TotalStoreOrder, task: str, entry: Entry) -> None:
        self._model, self._task, self._entry = model, task, entry

    @property
    def label(self) -> str:
        """Whose, and what."""
        return f"{self._task}'s store becomes visible: {self._model.shown(*self._entry)}"

    def apply(self) -> None:
        """Now."""
        self._model.drain(self._task, self._entry)


def lay(stored: bytes, start: int, over: bytearray, at: int) -> None:
    """Lay a store over a copy of the bytes from ``at`` on, as far as they overlap."""
    first, last = max(start, at), min(start + len(stored), at + len(over))
    if first < last:
        over[first - at : last - at] = stored[first - start : last - start]
