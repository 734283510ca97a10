"""What one look at an engine found: processes, rings, who waits for whom, and who is to blame."""

from __future__ import annotations

import msgspec


class Thread(msgspec.Struct, frozen=True):
    """One Python thread."""

    name: str
    frames: tuple[str, ...]
    """Innermost first, as ``function (file:line)``."""
    at: str = ""
    """The frame that says most to a person: the innermost outside of Python's own library."""
    waits: str = ""
    """For what, as :mod:`killpoint.inspection.waits` names it; empty: it runs, or nobody knows."""
    tid: int = 0
    """The kernel's number of it, where that is known."""
    gil: bool = False
    """Whether it holds Python's global lock."""
    line: str = ""
    """The source line that the innermost frame is at, where that can be read."""


class Process(msgspec.Struct, frozen=True):
    """One process of the tree."""

    pid: int
    parent: int
    command: str
    state: str
    """The kernel's letter: R runs, S sleeps, T is stopped, Z is dead."""
    age: float
    """Seconds since its start."""
    threads: tuple[Thread, ...] = ()

    @property
    def stopped(self) -> bool:
        """Whether a signal or a debugger holds it."""
        return self.state in ("T", "t")

    @property
    def dead(self) -> bool:
        """Whether it has ended, and its parent has not looked."""
        return self.state in ("Z", "X")

    def waits(self, *kinds: str) -> Thread | None:
        """A thread of it that waits for something of these kinds, the main thread first."""
        found = [thread for thread in self.threads if thread.waits.split(" ")[0] in kinds]
        return min(found, key=lambda thread: thread.name != "MainThread", default=None)


class Slot(msgspec.Struct, frozen=True):
    """One slot of a ring."""

    index: int
    written: bool
    unread: tuple[int, ...]
    """Readers that have not marked it read, while it is written."""
    number: int | None = None
    """Of its message, where the ring says."""


class Ring(msgspec.Struct, frozen=True):
    """A ring of shared memory, its flags read from outside."""

    name: str
    kind: str
    """Whose layout it has."""
    readers: int
    slots: tuple[Slot, ...]
    mappers: tuple[int, ...]
    """Living processes that map it."""
    writer: int | None = None
    """The writing process, as far as it is known."""
    reader_pids: dict[int, int] = {}
    """By reader, as far as they are known."""
    guessed: bool = False
    """Whether ``reader_pids`` follows from the order in which the processes started alone."""
    closed: tuple[int, ...] = ()
    """Readers that have closed it cleanly."""

    @property
    def short(self) -> str:
        """Its name for a person: names of the reference's carry more than one wants to read."""
        head, _, tail = self.name.rpartition("-")
        return f"{head.partition('-')[0]}…{tail}" if head else self.name

    def lag(self, reader: int) -> int:
        """How many messages are there that this reader has not read."""
        return sum(reader in slot.unread for slot in self.slots)

    @property
    def full(self) -> bool:
        """Whether the writer has to wait: every slot is written, and unread by somebody."""
        return all(slot.unread for slot in self.slots)

    @property
    def missing(self) -> int:
        """How many parties there ought to be, and are not."""
        return max(0, self.readers - len(self.closed) + 1 - len(self.mappers))


class Edge(msgspec.Struct, frozen=True):
    """One process waits for another."""

    waiter: int
    on: int | None
    """None: somebody who is not there any more, or is not known."""
    why: str
    idle: bool = False
    """Whether it may well be a rest: a child waits for work of its parent's, or of one above."""
    ring: str = ""
    """The ring that tells of it."""


class Culprit(msgspec.Struct, frozen=True):
    """The one that everybody waits for."""

    pid: int | None
    sentence: str
    waiters: tuple[int, ...] = ()
    doubt: str = ""
    """Why it may go on all the same; empty: it will not by itself."""


class Picture(msgspec.Struct, frozen=True):
    """All of it."""

    pid: int
    processes: tuple[Process, ...]
    rings: tuple[Ring, ...] = ()
    sockets: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    """The gravest first; none: nobody is seen to be."""
    unsure: tuple[str, ...] = ()
    """Of whom it cannot be told whether they wait in vain, each with what cannot be seen."""
    resting: int = 0
    """Threads that wait without a time limit for somebody who goes on."""
    seconds: float = 0.0
    """That the look took."""
