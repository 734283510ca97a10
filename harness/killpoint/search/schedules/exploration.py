"""Runs what a search gives, until it is exhausted, capped, or something is wrong."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence

import msgspec

from killpoint.interfaces import Chooser, Option, Search
from killpoint.verdict import Violation

Play = Callable[[Chooser], tuple[Violation | None, list[int], int]]
"""One run: what was wrong, its choices, its steps."""

_COLLECT_EVERY = 16
"""More seldom costs more: what a run leaves behind has then gone out of the caches."""


class Searched(msgspec.Struct):
    """Extent of one search."""

    name: str
    schedules: int
    complete: bool
    """True if it ran every schedule that it means to run. If not, it found nothing *so far*."""
    steps: int
    seconds: float
    """Seconds by the wall clock, however many processes there were."""
    violated: bool = False
    """True if its last schedule was a bad one."""

    def __str__(self) -> str:
        """``all 815 schedules with ≤ 2 preemptions``; a cap is always named."""
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


class Exploration:
    """A search under way: it may be gone on with.

    ``found``: the first run in which something was wrong; nothing is played after it.
    """

    def __init__(self, search: Search, play: Play) -> None:
        self._search, self._play = search, play
        self._runs = iter(search)
        self._held: Chooser | None = None
        """Schedule to be played next, if that is known."""
        self._begun = False
        self.schedules = self.steps = 0
        self.seconds = 0.0
        """Seconds of processor time."""
        self.found: Found | None = None

    @property
    def over(self) -> bool:
        """True if everything was played that the search means to play."""
        return self._begun and self._held is None and self._search.exhausted

    def go_on(self, most: int) -> None:
        """Play at most so many schedules; stop at the first violation."""
        began, end = time.process_time(), self.schedules + most
        collects = gc.isenabled()
        gc.disable()  # each run's rubbish is small, and a collection in the middle of one is dear
        try:
            while self.schedules < end and self.found is None:
                chooser = self._held or self._next()
                self._begun, self._held = True, None
                if chooser is None:
                    break
                self._one(chooser)
            if self.found is None and self._held is None:
                self._held = self._next()  # so that the search hears of the last run
        finally:
            if collects:
                gc.enable()
            self.seconds += time.process_time() - began

    def _one(self, chooser: Chooser) -> None:
        violation, choices, taken = self._play(chooser)
        self.schedules += 1
        self.steps += taken
        if violation is not None:
            self.found = Found(violation, choices)
        if self.schedules % _COLLECT_EVERY == 0:
            gc.collect(0)

    def _next(self) -> Chooser | None:
        chooser = next(self._runs, None)
        if chooser is None and not self._search.exhausted:  # it was given more
            self._runs = iter(self._search)
            chooser = next(self._runs, None)
        return chooser


def explore(search: Search, play: Play, cap: int) -> tuple[Searched, Found | None]:
    """Play at most ``cap`` schedules; stop at the first violation."""
    done = Exploration(search, play)
    began = time.monotonic()
    done.go_on(cap)
    seconds = round(time.monotonic() - began, 3)
    found = done.found is not None
    counts = done.schedules, done.over and not found, done.steps, seconds
    return Searched(search.name, *counts, found), done.found


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
