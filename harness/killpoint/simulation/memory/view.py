"""Stale loads: a task may see any value that nothing has yet told it is outdated.

Stores are ordered as they are made. Each task has a view: the stores that it knows to have
happened, since it made them, saw them, or shared a fence. Of what it does not know it may see, or
not see, as much as it likes, place by place; a full fence takes over whatever was known at every
earlier fence, and hands on what this task knows (a small promise-free relative of the view
machines of Kang et al. 2017).
"""

from __future__ import annotations

from killpoint.seams import World
from killpoint.simulation.memory.model import Model
from killpoint.simulation.memory.tso import lay

STALE_MOST = 3
"""How often a task may see something old in one run: a task that spins could do so for ever."""


class View(Model):
    """What is missing between two loads of one task, or between its stores, shows here.

    A load that covers several stores sees a prefix of them.
    """

    title = "stale loads"

    def __init__(self, world: World, room: int = 1 << 16) -> None:
        super().__init__(world, room)
        self._log: list[tuple[int, bytes]] = []
        self._known: dict[str, int] = {}
        """A bit for each entry of the log that a task knows of."""
        self._fenced = 0
        """The bits that were known at some fence."""
        self._before = b""
        """The memory before the log's first entry."""
        self._places: dict[tuple[int, int], tuple[int, list[int]]] = {}
        """For a range that was loaded: how much of the log was looked through, and what hits."""
        self._stale: dict[str, int] = {}

    def load(self, at: int, size: int) -> bytes:
        """The newest value, or by choice an older one that the task may still see."""
        self._point()
        name = self.world.current
        hits = self._hits(at, size)
        back = 0
        if hits and name != "-":
            known = self._known.get(name, 0)
            newer = 0
            while newer < len(hits) and not known >> hits[-1 - newer] & 1:
                newer += 1
            if newer and self._stale.get(name, 0) < STALE_MOST:
                back = self.world.decide(newer + 1, _label)
            for entry in hits[len(hits) - newer : len(hits) - back]:
                known |= 1 << entry
            self._known[name] = known
        content = self._old(at, size, hits, back) if back else bytes(self.data[at : at + size])
        if self.world.recording:
            old = ", which is an old value" if back else ""
            self.world.note(f"reads {self.shown(at, content)}{old}")
        return content

    def store(self, at: int, content: bytes) -> None:
        """Made, and known to this task."""
        world = self.world
        name = world.current
        if name != "-":
            self._point()
            if not self._log:
                self._before = bytes(self.data)
            self._known[name] = self._known.get(name, 0) | 1 << len(self._log)
            self._log.append((at, bytes(content)))
            self._moved()
        self.data[at : at + len(content)] = content
        if world.recording:
            world.note(f"stores {self.shown(at, content)}")

    def fence(self) -> None:
        """Share what is known with all who fence."""
        name = self.world.current
        if name == "-":
            return
        self._point()  # what was stored may be seen by who fences before this does
        self._fenced |= self._known.get(name, 0)
        self._known[name] = self._fenced
        if self.world.recording:
            self.world.note("fence")

    def _old(self, at: int, size: int, hits: list[int], back: int) -> bytes:
        """The bytes without the newest ``back`` stores to them."""
        name = self.world.current
        self._stale[name] = self._stale.get(name, 0) + 1
        self.world.stale()
        content = bytearray(self._before[at : at + size])
        for entry in hits[: len(hits) - back]:
            start, stored = self._log[entry]
            lay(stored, start, content, at)
        return bytes(content)

    def _hits(self, at: int, size: int) -> list[int]:
        """Which entries of the log overlap a range, the oldest first."""
        looked, hits = self._places.get((at, size), (0, []))
        log = self._log
        if looked < len(log):
            end = at + size
            for entry in range(looked, len(log)):
                start, stored = log[entry]
                if start < end and at < start + len(stored):
                    hits.append(entry)
            self._places[at, size] = len(log), hits
        return hits


def _label(back: int) -> str:
    return (
        f"the next load misses the newest {back} stores" if back > 1 else "the next load is stale"
    )
