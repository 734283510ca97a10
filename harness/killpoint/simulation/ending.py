"""Outcome of a simulated run, and the part of it that a person can read."""

from __future__ import annotations

from typing import Literal

import msgspec

How = Literal["done", "deadlock", "livelock", "starvation", "met"]
"""Outcome of a run. ``deadlock``: no task can go on, and nothing will change that, time included.
``livelock``: tasks ran until the limit, and no operation was completed in the last half of it.
``starvation``: some were, but by other tasks than the one that is named first.
``met``: it came to a state from which an earlier run of the search had gone on."""


class EventLine(msgspec.Struct, frozen=True):
    """One event of a recorded run."""

    lane: str
    """Task that did it, or ``-`` for the environment."""
    text: str
    choice: int = 0
    """Number of choices taken by then: the event's place in the schedule."""


class Ending(msgspec.Struct):
    """The end of a run."""

    how: How
    choices: list[int]
    steps: int
    now: float
    waiting: dict[str, str] = {}
    """Wait reason of each unfinished task, by its name."""
    lines: list[EventLine] = []

    def __str__(self) -> str:
        """Return the outcome, and the wait reason of each unfinished task."""
        waits = "; ".join(f"{name} waits for {what}" for name, what in self.waiting.items())
        return f"{self.how} after {self.steps} steps: {waits}" if waits else self.how
