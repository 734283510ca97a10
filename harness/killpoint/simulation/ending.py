"""How a simulated run ended, and what of it a person can read."""

from __future__ import annotations

from typing import Literal

import msgspec

How = Literal["done", "deadlock", "livelock", "starvation"]
"""``deadlock``: nobody can go on, and nothing will change that, time included. ``livelock``:
tasks ran until the limit, and no operation was completed in the last half of it. ``starvation``:
some were, but by others than the task that is named first."""


class Line(msgspec.Struct, frozen=True):
    """One thing that happened in a run that was written down."""

    lane: str
    """The task that did it, or ``-`` for the surroundings."""
    text: str
    choice: int = 0
    """How many choices had been taken by then: where in the schedule this stands."""


class Ending(msgspec.Struct):
    """The end of a run."""

    how: How
    choices: list[int]
    steps: int
    now: float
    waiting: dict[str, str] = {}
    """What each unfinished task waited for."""
    lines: list[Line] = []

    def __str__(self) -> str:
        """Who waits for what."""
        waits = "; ".join(f"{name} waits for {what}" for name, what in self.waiting.items())
        return f"{self.how} after {self.steps} steps: {waits}" if waits else self.how
