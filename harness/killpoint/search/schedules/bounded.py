"""Every schedule up to a cost, cheapest first: what the two bounded searches have in common.

A schedule is the default one, but for some choices. What a choice costs is the search's; each
schedule is run at most once, and those of a cost all before those that cost more. So the first
bad one has the fewest deviations. Within a cost the order is shuffled by the seed: a search that
is capped has seen a sample of all places, and not the end of every schedule's beginning.

Where a reduction is given, schedules that would only swap steps which do not touch each other are
left out (:mod:`.reduction`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from killpoint.interfaces import Access, Option, Script
from killpoint.search.schedules.reduction import Chain, Place, Reduction, chains_of, steps_between

Cost = Callable[[Option], int]

Branches = list[list[Chain]]
"""Branches by their cost."""
_Ways = tuple[Sequence[Option], list[tuple[int, int]]]
"""Options offered, and those beside the default that can be paid, with their cost."""


class Bounded:
    """All schedules whose choices other than 0 cost at most ``bound`` in sum.

    Args:
        least: what the cheapest choice costs; beyond the bound the options are not recorded.
        first: whether it begins with the default schedule; if not, with what it is given.
        reduction: what leaves out schedules that come to nothing new; None: all are run.
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
        reduction: Reduction | None = None,
    ) -> None:
        self.name = name if reduction is None else f"{name} that differ"
        self.bound = bound
        self._cost = cost
        self._least = least
        self._reduction = reduction
        self._ways: dict[tuple[int, int], _Ways] = {}
        """Payable ways by the identity of the options, and the cost that may still be spent."""
        self._random = random.Random(seed)
        self._begun = False
        self._first = first
        self._in_hand = False
        self._to_come: Branches = [[] for _ in range(bound + 1)]

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
            chains = self._to_come[spent]
            at = self._random.randrange(len(chains))
            chains[at], chains[-1] = chains[-1], chains[at]
            yield from self._branch_off(chains.pop(), spent)

    @property
    def waiting(self) -> int:
        """Number of schedules that are known and still to be run, or left out."""
        return sum(len(chain.places) for chains in self._to_come for chain in chains) + self._first

    def give(self, count: int) -> Branches:
        """About so many of those, for another one of this kind to run; some of each cost."""
        given: Branches = []
        share = count / max(1, self.waiting)
        for chains in self._to_come:
            kept = len(chains) - round(len(chains) * share)
            given.append(chains[kept:])
            del chains[kept:]
        return given

    def take(self, given: Branches) -> None:
        """Run these, too."""
        for chains, more in zip(self._to_come, given, strict=True):
            chains += more

    def _cheapest(self) -> int | None:
        return next((spent for spent, chains in enumerate(self._to_come) if chains), None)

    def _branch_off(self, chain: Chain, spent: int) -> Iterator[Script]:
        """Run the last branch of a chain; those before it that do the same are left out."""
        place = chain.places.pop()
        accesses: list[Access] | None = [] if chain.places else None
        yield from self._run([*chain.choices[: place.at], place.option], spent, accesses)
        if not chain.places:
            return
        if self._reduction is not None and self._reduction.may_skip(self.bound - spent):
            meanwhile = steps_between(accesses or [], place.at, chain.task)
            chain.skip(meanwhile)
        if chain.places:
            self._to_come[spent].append(chain)

    def _run(
        self, prefix: list[int], spent: int, accesses: list[Access] | None = None
    ) -> Iterator[Script]:
        self._in_hand = True
        room = self.bound - spent
        seen: list[Sequence[Option]] | None = [] if room >= self._least else None
        reduction = self._reduction
        if reduction is None:
            yield Script(prefix, seen)
        else:
            accesses = [] if accesses is None and seen is not None else accesses
            reduction.states.begin(spent, seen)
            yield Script(prefix, seen, reduction.states, accesses)
            reduction.states.end()
        if seen:
            self._branch(prefix, seen, room, accesses or [])
        self._in_hand = False

    def _branch(
        self,
        prefix: list[int],
        seen: list[Sequence[Option]],
        room: int,
        accesses: list[Access],
    ) -> None:
        """Add the branches that the run could have taken, at the places beyond its prefix."""
        choices, spent = prefix + [0] * len(seen), self.bound - room
        branches: list[tuple[int, Place, Sequence[Option]]] = []
        for at, options in enumerate(seen, len(prefix)):
            _, ways = self._ways.get((id(options), room)) or self._new_ways(options, room)
            for other, cost in ways:
                branches.append((spent + cost, Place(at, other), options))
        if self._reduction is None:
            for cost, place, _ in branches:
                self._to_come[cost].append(Chain(choices, [place]))
            return
        for cost, chain in chains_of(choices, branches, accesses):
            self._to_come[cost].append(chain)

    def _new_ways(self, options: Sequence[Option], room: int) -> _Ways:
        """Return the payable options, kept by identity: worlds offer the same few objects."""
        costs = [(other, self._cost(options[other])) for other in range(1, len(options))]
        ways = options, [(other, cost) for other, cost in costs if cost <= room]
        self._ways[id(options), room] = ways
        return ways
