"""Stale loads: a task may see any value that it does not yet know to be outdated.

Stores are ordered as they are made. Each task has a view: the stores that it knows to have
happened, since it made them, saw them, or shared a fence. It may see, or miss, any of the stores
that it does not know, place by place; a full fence takes over all that was known at every earlier
fence, and hands on what this task knows (a small promise-free relative of the view machines of Kang
et al. 2017).
"""

from __future__ import annotations

from killpoint.interfaces import World
from killpoint.simulation.memory.model import ALIGNED, Model
from killpoint.simulation.memory.tso import lay

STALE_MOST = 3
"""Most stale loads of a task in one run; a task that spins could make them for ever."""


class View(Model):
    """Memory model that shows a missing fence between two loads, or stores, of one task.

    A load that covers several stores sees a prefix of them.
    """

    title = "stale loads"

    def __init__(self, world: World, room: int = ALIGNED) -> None:
        super().__init__(world, room)
        self._log: list[tuple[int, bytes]] = []
        self._marks: list[int] = []
        """By entry, a hash of the store and of those that it came after: whatever order others
        were made in."""
        self._all = 0
        """One hash of all entries, in whatever order they are."""
        self._known: dict[str, int] = {}
        """By task, a bit for each entry of the log that it knows of."""
        self._fenced = 0
        """Bits of the entries that were known at some fence."""
        self._before = b""
        """Memory before the log's first entry."""
        self._hits: dict[tuple[int, int], list[int]] = {}
        """By range that was loaded or stored to: the log entries that overlap it, the oldest
        first."""
        self._hit_by: dict[tuple[int, int], list[list[int]]] = {}
        """By range that was stored to: the lists of the other ranges that it overlaps, and its
        own."""
        self._made: dict[str, int] = {}
        """By task, the number of its stores."""
        self._stale: dict[str, int] = {}

    def load(self, at: int, size: int) -> bytes:
        """Return the newest value, or by choice an older one that the task may still see."""
        self._access(at, at + size, False)
        name = self.world.current
        hits = self._hits.get((at, size))
        if hits is None:
            hits = self._hits_of(at, size)
        back = self._choose(name, hits) if hits and name != "-" else 0
        content = self._old(at, size, hits, back) if back else bytes(self.data[at : at + size])
        self._saw(content)
        if self._recording:
            old = ", which is an old value" if back else ""
            self.world.note(f"reads {self.shown(at, content)}{old}")
        return content

    def byte(self, at: int) -> int:
        """Return one byte, as ``load``."""
        if self._recording:
            return self.load(at, 1)[0]
        self._access(at, at + 1, False)
        name = self.world.current
        hits = self._hits.get((at, 1))
        if hits is None:
            hits = self._hits_of(at, 1)
        if hits and name != "-":
            back = self._choose(name, hits)
            if back:
                value = self._old(at, 1, hits, back)[0]
                self._saw(value)
                return value
        value = self.data[at]
        self._saw(value)
        return value

    def store(self, at: int, content: bytes) -> None:
        """Make a store, which this task knows of."""
        world = self.world
        name = world.current
        if name != "-":
            self._access(at, at + len(content), True)
            if not self._log:
                self._before = bytes(self.data)
            entry = len(self._log)
            size = len(content)
            earlier = self._hits.get((at, size))
            if earlier is None:
                earlier = self._hits_of(at, size)
            marks = self._marks
            under = sorted([marks[hit] for hit in earlier])
            made = self._made.get(name, 0)
            mark = hash((name, made, at, bytes(content), *under))
            marks.append(mark)
            self._all ^= mark
            self._known[name] = self._known.get(name, 0) | 1 << entry
            self._made[name] = made + 1
            self._log.append((at, bytes(content)))
            lists = self._hit_by.get((at, size))
            if lists is None:
                lists = self._lists_of(at, size)
            for hits in lists:
                hits.append(entry)
            self._stored()
            self._saw(None)
        self.data[at : at + len(content)] = content
        if self._recording:
            world.note(f"stores {self.shown(at, content)}")

    def fence(self) -> None:
        """Share the known stores with all tasks that fence."""
        name = self.world.current
        if name == "-":
            return
        self._access(-1, 0, True)  # a task that fences before this one may see its stores
        self._fenced |= self._known.get(name, 0)
        self._known[name] = self._fenced
        self._saw(None)
        if self._recording:
            self.world.note("fence")

    def state(self) -> object:
        """Return the stores with the order of those to one place, and who knows of which."""
        known = [
            (name, self._sum(bits), self._stale.get(name, 0))
            for name, bits in sorted(self._known.items())
        ]
        return self._all, self._sum(self._fenced), *known

    def _sum(self, bits: int) -> int:
        """Return one hash of these entries, in whatever order they are.

        Most entries are known nearly always, so that the few others are taken out of all.
        """
        marks = self._marks
        total, others = self._all, (1 << len(marks)) - 1 & ~bits
        while others:
            lowest = others & -others
            total ^= marks[lowest.bit_length() - 1]
            others ^= lowest
        return total

    def _old(self, at: int, size: int, hits: list[int], back: int) -> bytes:
        """Return the bytes without the newest ``back`` stores to them."""
        name = self.world.current
        self._stale[name] = self._stale.get(name, 0) + 1
        self.world.stale()
        content = bytearray(self._before[at : at + size])
        for entry in hits[: len(hits) - back]:
            start, stored = self._log[entry]
            lay(stored, start, content, at)
        return bytes(content)

    def _choose(self, name: str, hits: list[int]) -> int:
        """Return the number of newest stores to a place that a task misses now."""
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
        """Return the entries for a range not asked for before; later stores extend the list."""
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
        """Return the lists of loaded ranges that overlap a range not stored to before."""
        end = start + length
        lists = self._hit_by[start, length] = [
            hits for (at, size), hits in self._hits.items() if start < at + size and at < end
        ]
        return lists


def _label(back: int) -> str:
    return (
        f"the next load misses the newest {back} stores" if back > 1 else "the next load is stale"
    )
