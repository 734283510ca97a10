"""Partial-order reduction of a bounded search.

A task that is preempted right before a step, or right after it: if nobody touches what that step
touches before the task goes on, both come to the same state, at the same cost. So of the places in
a row at which a task could be preempted for another one, the last is run first; those before it are
left out as far as their steps are independent of all that was done meanwhile. (Flanagan and
Godefroid's dynamic partial-order reduction, for the special case that a bound on preemptions stays
a bound.) Runs that come to one state in different ways go on once: :mod:`.states`.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from killpoint.interfaces import Access, Option
from killpoint.search.schedules.states import VisitedStates


@dataclass
class Reduction:
    """What may be left out of a search.

    Args:
        states: those that its runs have come to.
        by_turns: whether two tasks share the memory, and nothing but whose turn it is is chosen:
            what a task does until it is preempted is then the same, wherever the other one stands.
        least: what the cheapest choice costs.
    """

    states: VisitedStates = field(default_factory=VisitedStates)
    by_turns: bool = False
    least: int = 0

    def may_skip(self, room: int) -> bool:
        """Return whether nothing that is chosen later can make two such runs differ."""
        return self.by_turns or room < self.least


@dataclass
class Place:
    """A place of a schedule, and the option that is to be taken there."""

    at: int
    option: int
    steps: list[Access] | None = None
    """What the running task does from here to the chain's next place; None: it is the last."""


@dataclass
class Chain:
    """Places of one schedule at which the same task could be preempted for the same other one.

    Between them no other task took a step.
    """

    choices: list[int]
    places: list[Place]
    task: str = ""
    """The task that is preempted; empty: it is another kind of choice."""

    def skip(self, meanwhile: list[Access] | None) -> None:
        """Drop the last places, as far as their steps touch nothing of what others did meanwhile.

        ``meanwhile`` is None if that is not known.
        """
        if meanwhile is None or not self.task:
            return
        while self.places:
            steps = self.places[-1].steps
            if steps is None or any(touch(a, b) for a in steps for b in meanwhile):
                return
            self.places.pop()


def touch(one: Access, other: Access) -> bool:
    """Return whether two accesses are to the same bytes, and one of them writes."""
    return (one[4] or other[4]) and one[2] < other[3] and other[2] < one[3]


def steps_between(accesses: Sequence[Access], at: int, task: str) -> list[Access] | None:
    """Return what others did from a place until the task went on; None: it never did."""
    meanwhile: list[Access] = []
    for access in accesses:
        if access[0] <= at:
            continue
        if access[1] == task:
            return meanwhile
        meanwhile.append(access)
    return None


def chains_of(
    choices: list[int],
    branches: Sequence[tuple[int, Place, Sequence[Option]]],
    accesses: Sequence[Access],
) -> Iterator[tuple[int, Chain]]:
    """Yield the branches of a schedule with their cost, those of a chain together.

    Args:
        branches: each with its cost and the options at its place, in the order of their places.
        accesses: those of the schedule's run.
    """
    open_chains: dict[tuple[str, str, int], Chain] = {}
    for cost, place, options in branches:
        running, other = options[0], options[place.option]
        if running.task is None or other.task is None or not other.preempts or running.value:
            yield cost, Chain(choices, [place])
            continue
        key = running.task, other.task, cost
        chain = open_chains.get(key)
        if chain is not None:
            steps = _steps(accesses, chain.places[-1].at, place.at)
            if all(step[1] == running.task for step in steps):
                chain.places[-1].steps = steps
                chain.places.append(place)
                continue
            yield cost, chain
        open_chains[key] = Chain(choices, [place], running.task)
    for (_, _, cost), chain in open_chains.items():
        yield cost, chain


def _steps(accesses: Sequence[Access], after: int, upto: int) -> list[Access]:
    """Return the accesses from one place to another."""
    first = bisect.bisect_right(accesses, after, key=_place)
    return list(accesses[first : bisect.bisect_right(accesses, upto, lo=first, key=_place)])


def _place(access: Access) -> int:
    return access[0]
