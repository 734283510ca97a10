"""What a simulated stage gives, and what an explorer drives: the seams between the two.

A *world* runs tasks one at a time. Whatever could go one way or another (which task goes on, when
a buffered store drains, which of several values a load sees, whether a frame arrives) is one
choice out of a list whose option 0 is the default: the running task goes on, nothing stale is
seen, nothing is lost. A schedule is the list of choices, and replays exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec


class Option(msgspec.Struct, frozen=True):
    """One way to go on."""

    label: str
    """For a person: ``writer``, ``drain writer: slot 0 written=1``, ``deliver READY to 1``."""
    task: str | None
    """The task that runs, or None if it is the surroundings that act."""
    preempts: bool = False
    """Whether it takes the turn from a task that could have gone on."""
    key: str = ""
    """What kind of choice it is among tasks: the same for every run (for priorities)."""


class Chooser(Protocol):
    """Decides; a file each in ``explore/schedules``."""

    def choose(self, options: Sequence[Option]) -> int:
        """The index of one of at least two options; 0 is the default."""
        ...


class Action(Protocol):
    """Something that the surroundings may do now."""

    @property
    def label(self) -> str:
        """For a person."""
        ...

    def apply(self) -> None:
        """Do it."""
        ...


class Source(Protocol):
    """A part of the surroundings: a memory's store buffers, a network, a clock."""

    def actions(self) -> Sequence[Action]:
        """What it may do now; offered at every point, after the tasks."""
        ...


class World(Protocol):
    """What simulated memory, sockets and clocks are built on; called by the running task."""

    @property
    def now(self) -> float:
        """Simulated seconds."""
        ...

    @property
    def current(self) -> str:
        """The name of the running task."""
        ...

    def point(self, label: str) -> None:
        """Here another task may go on, or the surroundings act, before what comes next."""
        ...

    def moved(self) -> None:
        """Something that others can see has changed: whoever spins looks again."""
        ...

    def decide(self, labels: Sequence[str]) -> int:
        """A choice that is not about whose turn it is; 0 is the default."""
        ...

    def spin(self) -> None:
        """A look that found nothing, by a task that looks again at once (yield, zero sleep)."""
        ...

    def wait(self, ready: Callable[[], bool], seconds: float | None, label: str) -> bool:
        """Sleep until ready or until that much simulated time has passed; whether it is ready.

        The clock only moves when nobody can run, or by a choice.
        """
        ...

    def add(self, source: Source) -> None:
        """A further part of the surroundings."""
        ...
