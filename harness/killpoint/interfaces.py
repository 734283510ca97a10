"""Interfaces between a simulated stage and the explorer that drives it.

A *world* runs tasks one at a time. Whatever could go one way or another (which task goes on, when
a buffered store drains, which of several values a load sees, whether a frame arrives) is one
choice out of a list whose option 0 is the default: the running task goes on, nothing stale is
seen, nothing is lost. A schedule is the list of choices, and replays exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import msgspec


class Option(msgspec.Struct, frozen=True):
    """One way to go on."""

    task: str | None
    """The task that runs, or None if it is the environment that acts, or a value that is seen."""
    preempts: bool = False
    """True if a task that could have gone on is passed over, or something happens unasked."""
    value: bool = False
    """True if it is about what happens to the running task, and not about whose turn it is."""


class Diverged(Exception):
    """A schedule asked for an option that is not there: something outside it differs."""


class Chooser(Protocol):
    """Decides one run; searches in ``search/schedules`` give one for each."""

    def choose(self, options: Sequence[Option]) -> int:
        """The index of one of at least two options; 0 is the default."""
        ...


Access = tuple[int, str, int, int, bool]
"""An access to shared bytes: the number of choices before it, the task, the first byte and the one
past the last, whether it writes. Fences that tasks share have a place below all bytes."""


class States(Protocol):
    """States of a world that runs of one search have come to."""

    def meets(self, state: int) -> bool:
        """Note a state; return whether a run can end in it, since an earlier one has gone on."""
        ...


class Script:
    """The given choices, then the default ones. A world that knows one need not ask it.

    ``seen``: keeps the options at each place beyond the given choices; None: they are dropped.
    ``accesses``: keeps what tasks read and write; None: it is dropped.
    ``states``: is told the state at each of these places; None: the run goes on to its end.
    """

    __slots__ = ("_at", "accesses", "prefix", "seen", "states")

    def __init__(
        self,
        prefix: Sequence[int],
        seen: list[Sequence[Option]] | None = None,
        states: States | None = None,
        accesses: list[Access] | None = None,
    ) -> None:
        self.prefix, self.seen = prefix, seen
        self.states, self.accesses = states, accesses
        self._at = 0

    def choose(self, options: Sequence[Option]) -> int:
        """Return the given choice, then 0."""
        at = self._at
        if at < len(self.prefix):
            self._at = at + 1
            return self.prefix[at]
        if self.seen is not None:
            self.seen.append(options)
        return 0


class Search(Protocol):
    """Gives choosers, one for each run, until there is nothing new to try."""

    name: str
    """Name for a person: ``≤ 2 preemptions``."""

    @property
    def exhausted(self) -> bool:
        """True if every schedule of the search has been given and run."""
        ...

    def __iter__(self) -> Iterator[Chooser]:
        """The next chooser is asked for once the run with the last one has ended."""
        ...


class Action(Protocol):
    """Something that the environment may do now."""

    @property
    def label(self) -> str:
        """Label for a person; asked for only where a schedule is written down."""
        ...

    def apply(self) -> None:
        """Do it."""
        ...


class Source(Protocol):
    """A part of the environment: a memory's store buffers, a network, a clock.

    One with a true attribute ``lasting`` may take any time over what it has to do.
    """

    def actions(self) -> Sequence[Action]:
        """Return its possible actions, offered at every point, after the tasks. Must be quick."""
        ...


class World(Protocol):
    """Ground of simulated memory, sockets and clocks; called by the running task."""

    recording: bool
    """True if the schedule is written down for a person: only then are ``note``s of use."""

    @property
    def now(self) -> float:
        """Simulated seconds."""
        ...

    @property
    def current(self) -> str:
        """The name of the running task."""
        ...

    def point(self) -> None:
        """Here another task may go on, or the environment acts, before what comes next.

        Raises the world's own BaseException once the run has been broken off: let it pass.
        """
        ...

    def access(self, at: int, end: int, writes: bool) -> None:
        """As ``point``, before the running task reads or writes these bytes."""
        ...

    def note(self, text: str) -> None:
        """Record what the running task has just done, for the reader of the schedule."""
        ...

    def moved(self) -> None:
        """Something that others can see has changed: tasks that spin or wait look again."""
        ...

    def stored(self) -> None:
        """The same, by a store: for those who spin, since what others ``wait`` for is no memory."""
        ...

    def decide(self, count: int, label: Callable[[int], str]) -> int:
        """Choose one of ``count`` ways, by the schedule, but no task to run; 0 is the default."""
        ...

    def stale(self) -> None:
        """Note that the running task has just seen an old value: its next spin is no rest."""
        ...

    def saw(self, value: object) -> None:
        """The running task has seen this value, or done this: it is in another state now."""
        ...

    def spin(self, label: str = "a change") -> None:
        """A look that found nothing, by a task that looks again at once (yield, zero sleep)."""
        ...

    def wait(self, ready: Callable[[], bool], seconds: float | None, label: str) -> bool:
        """Sleep until ready or until that much simulated time has passed; whether it is ready.

        A change that makes it ready is announced by ``moved``: it must not depend on memory. The
        clock only moves when no task can run, or by a choice.
        """
        ...

    def progress(self) -> None:
        """The running task has completed an operation: it is not starved."""
        ...

    def add(self, source: Source) -> None:
        """A further part of the environment."""
        ...


class Segment(Protocol):
    """Shared memory of a simulated world."""

    name: str
    size: int

    @property
    def buf(self) -> Any:
        """The whole, as its users see it: slices like a memoryview, but is no real buffer."""
        ...

    @property
    def plain(self) -> memoryview:
        """The whole as a real buffer: for constructors, before the first task runs."""
        ...

    def call(self, namer: Callable[[int, int], str]) -> None:
        """Take a function that names (offset, bytes), for the reader of a schedule."""
        ...


class SimulatedEnvironment(Protocol):
    """Replacements of the machine that a simulated world gives a target's code.

    It outlasts a run: each run has fresh memory, sockets and time behind it.
    """

    @property
    def world(self) -> World:
        """World of the run."""
        ...

    @property
    def sockets(self) -> Any:
        """Replacement of the target's sockets (capability ``sim_sockets``); None: there is none."""
        ...

    def create(self, nbytes: int) -> Segment:
        """A new segment, zeroed."""
        ...

    def attach(self, name: str) -> Segment:
        """Attach a segment that was created in this run.

        Raises:
            FileNotFoundError: no segment has that name.
        """
        ...

    def fence(self) -> None:
        """A full fence of the running task."""
        ...

    def spin(self, label: str = "a change") -> None:
        """A yield, or a sleep of no length, by a task that then looks again."""
        ...

    def sleep(self, seconds: float) -> None:
        """Sleep in simulated time."""
        ...

    def now(self) -> float:
        """Simulated seconds, for whatever asks a monotonic clock."""
        ...
