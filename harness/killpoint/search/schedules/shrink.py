"""Simplification of a bad schedule: fewest preemptions, then fewest deviations, then shortest.

The list of choices is shrunk, not what came of them (as Hypothesis does it): a choice is set back
to the default, or the rest of the list is dropped, and the run must be wrong again in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from killpoint.interfaces import Diverged
from killpoint.search.schedules.exploration import Counting, Found, Play
from killpoint.search.schedules.replay import FixedSchedule

Cost = tuple[int, int, int]
"""Preemptions, deviations, choices."""


def shrink(play: Play, found: Found, seconds: float) -> Found:
    """The simplest that was found in that time; ``found`` itself if it does not replay."""
    end = time.monotonic() + seconds
    best = _again(play, found, found.choices)
    if best is None:
        return found
    cost, found = best
    improved = True
    while improved:
        improved = False
        for choices in _simpler(found.choices):
            if time.monotonic() > end:
                return found
            other = _again(play, found, choices)
            if other is not None and other[0] < cost:
                cost, found = other
                improved = True
                break
    return found


def _simpler(choices: Sequence[int]) -> Iterator[list[int]]:
    """The same with less in it, the most promising first."""
    taken = [place for place, choice in enumerate(choices) if choice]
    for place in taken:
        yield list(choices[:place])
    for place in reversed(taken):
        yield [*choices[:place], 0, *choices[place + 1 :]]
    for place in reversed(taken):
        yield [*choices[:place], *choices[place + 1 :]]


def _again(play: Play, found: Found, choices: Sequence[int]) -> tuple[Cost, Found] | None:
    """Play it; None if it is not wrong in the same way."""
    chooser = Counting(FixedSchedule(choices))
    try:
        violation, taken, _ = play(chooser)
    except Diverged:
        return None
    if violation is None or violation.kind != found.violation.kind:
        return None
    while taken and taken[-1] == 0:
        taken = taken[:-1]
    return (chooser.preemptions, chooser.deviations, len(taken)), Found(violation, taken)
