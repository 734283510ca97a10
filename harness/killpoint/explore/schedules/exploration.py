"""Runs what a search gives, until it is exhausted, capped, or something is wrong."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence

import msgspec

from killpoint.seams import Chooser, Option, Search
from killpoint.verdict import Violation

Play = Callable[[Chooser], tuple[Violation | None, list[int], int]]
"""One run: what was wrong, its choices, its steps."""

_COLLECT_EVERY = 16
"""More seldom costs more: what a run leaves behind has then gone out of the caches."""


class Searched(msgspec.Struct):
    """How far one search came."""

    name: str
    schedules: int
    complete: bool
    """Whether it ran every schedule that it means to run. If not, it found nothing *so far*."""
    steps: int
    seconds: float
    violated: bool = False
    """Whether its last schedule was a bad one."""

    def __str__(self) -> str:
        """``all 815 schedules with ≤ 2 preemptions``; a cap is always told."""
        if self.violated:
            return f"violated by schedule {self.schedules} of those with {self.name}"
        if self.name.startswith("≤"):
            how = "all" if self.complete else "capped at"
            return f"{how} {self.schedules} schedules with {self.name}"
        return self.name if self.complete else f"{self.schedules} of {self.name}"

    @property
    def rate(self) -> float:
        """Schedules a second."""
        return self.schedules / self.seconds if self.seconds else 0.0


class Found(msgspec.Struct):
    """The first run in which something was wrong."""

    violation: Violation
    choices: list[int]


def explore(search: Search, play: Play, cap: int) -> tuple[Searched, Found | None]:
    """Play at most ``cap`` schedules; stop at the first violation."""
    began = time.process_time()
    count = steps = 0
    found: Found | None = None
    collects = gc.isenabled()
    gc.disable()  # each run's rubbish is small, and a collection in the middle of one is dear
    try:
        runs = iter(search)
        while count < cap and found is None:
            chooser = next(runs, None)
            if chooser is None:
                break
            violation, choices, taken = play(chooser)
            count += 1
            steps += taken
            if violation is not None:
                found = Found(violation, choices)
            if count % _COLLECT_EVERY == 0:
                gc.collect(0)
        if found is None and count:
            next(runs, None)  # hears of the last run; what it gives is not played
    finally:
        if collects:
            gc.enable()
    seconds = time.process_time() - began
    complete = found is None and search.exhausted
    searched = Searched(search.name, count, complete, steps, round(seconds, 3), found is not None)
    return searched, found


class Counting:
    """Asks another chooser, and counts what is not the default."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self.preemptions = 0
        self.deviations = 0

    def choose(self, options: Sequence[Option]) -> int:
        """As the other one says."""
        taken = self._chooser.choose(options)
        self.deviations += taken != 0
        self.preemptions += 0 <= taken < len(options) and options[taken].preempts
        return taken
