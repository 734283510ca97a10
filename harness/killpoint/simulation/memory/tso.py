"""Total store order, as of x86: each task's stores pass through a queue of its own.

A task sees its own stores at once, others see them once they have drained, in order (Owens, Sarkar
and Sewell 2009). The time of a drain is the environment's choice; a fence waits for all.
"""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.interfaces import World
from killpoint.simulation.memory.model import ALIGNED, Model


class TotalStoreOrder(Model):
    """Loads may pass older stores of the same task; nothing else is reordered."""

    title = "total store order (x86)"

    def __init__(self, world: World, room: int = ALIGNED) -> None:
        super().__init__(world, room)
        self._buffers: dict[str, list[Buffered]] = {}
        self._offered: list[Buffered] | None = []
        """Stores that may drain now; None: to be computed."""
        world.add(self)

    def load(self, at: int, size: int) -> bytes:
        """Return the newest of the task's own stores, or else the bytes visible to all."""
        self._access(at, at + size, False)
        content = self.data[at : at + size]
        world = self.world
        buffer = self._buffers.get(world.current)
        if buffer:
            for each in buffer:
                if each.at < at + size and at < each.end:
                    lay(each.content, each.at, content, at)
        if self._recording:
            world.note(f"reads {self.shown(at, bytes(content))}")
        value = bytes(content)
        self._saw(value)
        return value

    def byte(self, at: int) -> int:
        """Return one byte, as ``load``."""
        if self._recording:
            return self.load(at, 1)[0]
        self._access(at, at + 1, False)
        buffer = self._buffers.get(self.world.current)
        if buffer:
            for each in reversed(buffer):
                if each.at <= at < each.end:
                    value = each.content[at - each.at]
                    self._saw(value)
                    return value
        value = self.data[at]
        self._saw(value)
        return value

    def store(self, at: int, content: bytes) -> None:
        """Put a store in the task's queue, without a point: only its drain is seen by others."""
        world = self.world
        name = world.current
        if name == "-":
            self.data[at : at + len(content)] = content
            return
        buffer = self._buffers.get(name)
        if buffer is None:
            buffer = self._buffers[name] = []
        buffer.append(Buffered(self, name, at, bytes(content)))
        self._offered = None
        self._stored()
        self._saw(None)
        if self._recording:
            world.note(f"stores {self.shown(at, content)}, not visible yet")

    def fence(self) -> None:
        """Drain the task's queue, a step for each store."""
        buffer = self._buffers.get(self.world.current)
        while buffer:
            oldest = buffer[0]
            self._access(oldest.at, oldest.end, True)
            if buffer:
                oldest = buffer[0]
                oldest.apply()
                self._saw(None)
                if self._recording:
                    self.world.note(f"fence: visible is {self.shown(oldest.at, oldest.content)}")

    def actions(self) -> Sequence[Buffered]:
        """Return the stores that may drain: one of each task that has any."""
        offered = self._offered
        if offered is None:
            buffers = self._buffers.values()
            offered = [each for buffer in buffers if buffer for each in self._next_of(buffer)]
            self._offered = offered
        return offered

    def state(self) -> object:
        """Return the visible bytes, and each task's queue, in the order of their offers."""
        queues = [
            (name, *((each.at, each.content) for each in buffer))
            for name, buffer in self._buffers.items()
        ]
        return bytes(self.data[: self._end]), *queues

    def drain(self, store: Buffered) -> None:
        """Make one store visible."""
        self._buffers[store.task].remove(store)
        self.data[store.at : store.end] = store.content
        self._offered = None
        self._stored()

    def _next_of(self, buffer: list[Buffered]) -> list[Buffered]:
        return buffer[:1]


class Buffered:
    """Store that only its task sees; as an action, it becomes visible to all."""

    __slots__ = ("_model", "at", "content", "end", "task")

    def __init__(self, model: TotalStoreOrder, task: str, at: int, content: bytes) -> None:
        self._model, self.task, self.at, self.content = model, task, at, content
        self.end = at + len(content)

    @property
    def label(self) -> str:
        """Task and content of the store, in words."""
        what = self._model.shown(self.at, self.content)
        return f"{self.task}'s store becomes visible: {what}"

    def apply(self) -> None:
        """Make it visible."""
        self._model.drain(self)


def lay(stored: bytes, start: int, over: bytearray, at: int) -> None:
    """Lay a store over a copy of the bytes from ``at`` on, as far as they overlap."""
    first, last = max(start, at), min(start + len(stored), at + len(over))
    if first < last:
        over[first - at : last - at] = stored[first - start : last - start]
