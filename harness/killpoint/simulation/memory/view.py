"""Stale loads: a task may see any value that nothing has yet told it is outdated.

Stores are ordered as they are made. Each task has a view: the stores that it knows to have
happened, since it made them, saw them, or shared a fence. Of what it does not know it may see, or
not see, as much as it likes, place by place; a full fence takes over whatever was known at every
earlier fence, and hands on what this task knows (a small promise-free relative of the view
machines of Kang et al. 2017).
"""

from __future__ import annotations

from killpoint.interfaces import World
from killpoint.simulation.memory.model import ALIGNED, Model
from killpoint.simulation.memory.tso import lay

STALE_MOST = 3
"""How often a task may see something old in one run: a task that spins could do so for ever."""


class View(Model):
    """What is missing between two loads of one task, or between its stores, shows here.

    A load that covers several stores sees a prefix of them.
    """

    title = "stale loads"

    def __init__(self, world: World, room: int = ALIGNED) -> None:
        super().__init__(world, room)
        self._log: list[tuple[int, bytes]] = []
        self._known: dict[str, int] = {}
        """A bit for each entry of the log that a task knows of."""
        self._fenced = 0
        """The bits that were known at some fence."""
        self._before = b""
        """The memory before the log's first entry."""
        self._hits: dict[tuple[int, int], list[int]] = {}
        """For a range that was loaded: which entries of the log overlap it, the oldest first."""
        self._hit_by: dict[tuple[int, int], list[list[int]]] = {}
        """For a range that was stored to: the lists of the ranges that it overlaps."""
        self._stale: dict[str, int] = {}

    def load(self, at: int, size: int) -> bytes:
        """The newest value, or by choice an older one that the task may still see."""
        self._point()
        name = self.world.current
        hits = self._hits.get((at, size))
        if hits is None:
            hits = self._hits_of(at, size)
        back = self._choose(name, hits) if hits and name != "-" else 0
        content = self._old(at, size, hits, back) if back else bytes(self.data[at : at + size])
        if self._recording:
            old = ", which is an old value" if back else ""
            self.world.note(f"reads {self.shown(at, content)}{old}")
        return content

    def byte(self, at: int) -> int:
        """As ``load``."""
        if self._recording:
            return self.load(at, 1)[0]
        self._point()
        name = self.world.current
        hits = self._hits.get((at, 1))
        if hits is None:
            hits = self._hits_of(at, 1)
        if hits and name != "-":
            back = self._choose(name, hits)
            if back:
                return self._old(at, 1, hits, back)[0]
        return self.data[at]

    def store(self, at: int, content: bytes) -> None:
        """Made, and known to this task."""
        world = self.world
        name = world.current
        if name != "-":
            self._point()
            if not self._log:
                self._before = bytes(self.data)
            entry = len(self._log)
            self._known[name] = self._known.get(name, 0) | 1 << entry
            self._log.append((at, bytes(content)))
            lists = self._hit_by.get((at, len(content)))
            if lists is None:
                lists = self._lists_of(at, len(content))
            for hits in lists:
                hits.append(entry)
            self._stored()
        self.data[at : at + len(content)] = content
        if self._recording:
            world.note(f"stores {self.shown(at, content)}")

    def fence(self) -> None:
        """Share what is known with all who fence."""
        name = self.world.current
        if name == "-":
            return
        self._point()  # what was stored may be seen by who fences before this does
        self._fenced |= self._known.get(name, 0)
        self._known[name] = self._fenced
        if self._recording:
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

    def _choose(self, name: str, hits: list[int]) -> int:
        """How many of the newest stores to a place a task does not see now."""
        known = self._known.get(name, 0)
        if known >> hits[-1] & 1:
            return 0
        count, newer = len(hits), 1
        while newer < count and not known >> hits[-1 - newer] & 1:
            newer += 1
        back = 0
        if self._stale.get(name, 0) < STALE_MOST:
            back = self.world.decide(newer + 1, _label)
        for entry in hits[count - newer : count - back]:
            known |= 1 << entry
        self._known[name] = known
        return back

    def _hits_of(self, at: int, size: int) -> list[int]:
        """A range that was not loaded before; from now on the list is kept up."""
        end = at + size
        hits = self._hits[at, size] = [
            entry
            for entry, (start, stored) in enumerate(self._log)
            if start < end and at < start + len(stored)
        ]
        for (start, length), lists in self._hit_by.items():
            if start < end and at < start + length:
                lists.append(hits)
        return hits

    def _lists_of(self, start: int, length: int) -> list[list[int]]:
        """A range that was not stored to before."""
        end = start + length
        lists = self._hit_by[start, length] = [
            hits for (at, size), hits in self._hits.items() if start < at + size and at < end
        ]
        return lists


def _label(back: int) -> str:
    return (
        f"the next load misses the newest {back} stores" if back > 1 else "the next load is stale"
    )
