"""Result of one look at an engine: processes, rings, waits, and culprits."""

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
    """Kind of the wait, as :mod:`killpoint.inspection.waits` names it; empty: none, or an unknown
    one."""
    tid: int = 0
    """The kernel's number of it, where that is known."""
    gil: bool = False
    """True if the thread holds Python's global lock."""
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
        """True if a signal or a debugger holds the process."""
        return self.state in ("T", "t")

    @property
    def dead(self) -> bool:
        """True if the process has ended, and its parent has not reaped it."""
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
    """Number of its message, where the ring has it."""


class Ring(msgspec.Struct, frozen=True):
    """A ring of shared memory, its flags read from outside."""

    name: str
    kind: str
    """Name of the target whose layout the ring has."""
    readers: int
    slots: tuple[Slot, ...]
    mappers: tuple[int, ...]
    """Living processes that map it."""
    writer: int | None = None
    """The writing process, as far as it is known."""
    reader_pids: dict[int, int] = {}
    """Process of each reader, as far as they are known."""
    guessed: bool = False
    """True if ``reader_pids`` follows from the order alone in which the processes started."""
    closed: tuple[int, ...] = ()
    """Readers that have closed it cleanly."""

    @property
    def short(self) -> str:
        """Name for a person: names of the reference's carry more than one wants to read."""
        head, _, tail = self.name.rpartition("-")
        return f"{head.partition('-')[0]}…{tail}" if head else self.name

    def lag(self, reader: int) -> int:
        """Return the number of messages in the ring that this reader has not read."""
        return sum(reader in slot.unread for slot in self.slots)

    @property
    def sent(self) -> int:
        """Number of messages that it has had, as far as it shows: by their numbers, or its slots.

        A ring without numbers shows no more messages than it has slots.
        """
        written = [slot for slot in self.slots if slot.written]
        return max(len(written), *((slot.number or 0) + 1 for slot in written), 0)

    @property
    def full(self) -> bool:
        """True if the writer has to wait: every slot is written, and unread by a reader."""
        return all(slot.unread for slot in self.slots)

    @property
    def missing(self) -> int:
        """Number of parties that are missing."""
        return max(0, self.readers - len(self.closed) + 1 - len(self.mappers))


class Edge(msgspec.Struct, frozen=True):
    """Wait of one process for another."""

    waiter: int
    on: int | None
    """None: a party that is not there any more, or is not known."""
    why: str
    idle: bool = False
    """True if it may well be a rest: a child waits for work of its parent's, or of one above."""
    ring: str = ""
    """The ring that shows the wait."""


class Culprit(msgspec.Struct, frozen=True):
    """The process that all others wait for."""

    pid: int | None
    sentence: str
    waiters: tuple[int, ...] = ()
    doubt: str = ""
    """Reason why it may go on all the same; empty: it will not by itself."""


class Picture(msgspec.Struct, frozen=True):
    """Result of one look."""

    pid: int
    processes: tuple[Process, ...]
    rings: tuple[Ring, ...] = ()
    sockets: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    """The gravest first; none: no party is seen to be one."""
    unsure: tuple[str, ...] = ()
    """Threads that may wait in vain, each with what cannot be seen."""
    resting: int = 0
    """Number of threads that wait without a time limit for a party that goes on."""
    seconds: float = 0.0
    """Duration of the look."""
