"""Every schedule up to a cost, cheapest first: what the two bounded searches have in common.

A schedule is the default one, but for some choices. What a choice costs is the search's; each
schedule is run exactly once, and those of a cost all before those that cost more. So the first
bad one has the fewest deviations. Within a cost the order is shuffled by the seed: a search that
is capped has seen a sample of all places, and not the end of every schedule's beginning.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from killpoint.interfaces import Option, Script

Cost = Callable[[Option], int]

_Branch = tuple[list[int], int, int]
"""The choices of an earlier run, where to leave them, and for which option instead."""
Branches = list[list[_Branch]]
"""Branches by their cost."""
_Ways = tuple[Sequence[Option], list[tuple[int, int]]]
"""Options offered, and those beside the default that can be paid, with their cost."""


class Bounded:
    """All schedules whose choices other than 0 cost at most ``bound`` in sum.

    Args:
        least: what the cheapest choice costs; beyond the bound the options are not recorded.
        first: whether it begins with the default schedule; if not, with what it is given.
    """

    def __init__(
        self,
        name: str,
        bound: int,
        cost: Cost,
        seed: int = 0,
        least: int = 0,
        *,
        first: bool = True,
    ) -> None:
        self.name = name
        self.bound = bound
        self._cost = cost
        self._least = least
        self._ways: dict[tuple[int, int], _Ways] = {}
        """Payable ways by the identity of the options, and the cost that may still be spent."""
        self._random = random.Random(seed)
        self._begun = False
        self._first = first
        self._in_hand = False
        self._to_come: list[list[_Branch]] = [[] for _ in range(bound + 1)]

    @property
    def exhausted(self) -> bool:
        """True if all schedules have been run."""
        return self._begun and not self._in_hand and not self.waiting

    def __iter__(self) -> Iterator[Script]:
        """The next one, by cost."""
        self._begun = True
        if self._first:
            self._first = False
            yield from self._run([], 0)
        while (spent := self._cheapest()) is not None:
            branches = self._to_come[spent]
            at = self._random.randrange(len(branches))
            branches[at], branches[-1] = branches[-1], branches[at]
            before, leave, option = branches.pop()
            yield from self._run([*before[:leave], option], spent)

    @property
    def waiting(self) -> int:
        """Number of schedules that are known and still to be run."""
        return sum(map(len, self._to_come)) + self._first

    def give(self, count: int) -> Branches:
        """About so many of those, for another one of this kind to run; some of each cost."""
        given: Branches = []
        share = count / max(1, self.waiting)
        for branches in self._to_come:
            kept = len(branches) - round(len(branches) * share)
            given.append(branches[kept:])
            del branches[kept:]
        return given

    def take(self, given: Branches) -> None:
        """Run these, too."""
        for branches, more in zip(self._to_come, given, strict=True):
            branches += more

    def _cheapest(self) -> int | None:
        return next((spent for spent, branches in enumerate(self._to_come) if branches), None)

    def _run(self, prefix: list[int], spent: int) -> Iterator[Script]:
        self._in_hand = True
        room = self.bound - spent
        seen: list[Sequence[Option]] | None = [] if room >= self._least else None
        yield Script(prefix, seen)
        if seen:
            self._branch(prefix, seen, room)
        self._in_hand = False

    def _branch(self, prefix: list[int], seen: list[Sequence[Option]], room: int) -> None:
        """Add the branches that the run could have taken, at the places beyond its prefix."""
        choices, spent = prefix + [0] * len(seen), self.bound - room
        for at, options in enumerate(seen, len(prefix)):
            _, ways = self._ways.get((id(options), room)) or self._new_ways(options, room)
            for other, cost in ways:
                self._to_come[spent + cost].append((choices, at, other))

    def _new_ways(self, options: Sequence[Option], room: int) -> _Ways:
        """Return the payable options, kept by identity: worlds offer the same few objects."""
        costs = [(other, self._cost(options[other])) for other in range(1, len(options))]
        ways = options, [(other, cost) for other, cost in costs if cost <= room]
        self._ways[id(options), room] = ways
        return ways
