"""Every schedule up to a cost, cheapest first: what the two bounded searches have in common.

A schedule is the default one, but for some choices. What a choice costs is the search's; each
schedule is run exactly once, and those of a cost all before those that cost more. So the first
bad one has the fewest deviations. Within a cost the order is shuffled by the seed: a search that
is capped has seen a sample of all places, and not the end of every schedule's beginning.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from killpoint.seams import Option

Cost = Callable[[Option], int]

_Branch = tuple[list[int], int, int]
"""The choices of an earlier run, where to leave them, and for which option instead."""


class Bounded:
    """All schedules whose choices other than 0 cost at most ``bound`` in sum."""

    def __init__(self, name: str, bound: int, cost: Cost, seed: int = 0) -> None:
        self.name = name
        self.bound = bound
        self._cost = cost
        self._random = random.Random(seed)
        self._begun = False
        self._in_hand = False
        self._to_come: list[list[_Branch]] = [[] for _ in range(bound + 1)]

    @property
    def exhausted(self) -> bool:
        """Whether all have been run."""
        return self._begun and not self._in_hand and not any(self._to_come)

    def __iter__(self) -> Iterator[Path]:
        """The next one, by cost."""
        self._begun = True
        yield from self._run(Path([]), 0)
        for spent, branches in enumerate(self._to_come):
            while branches:
                at = self._random.randrange(len(branches))
                branches[at], branches[-1] = branches[-1], branches[at]
                before, leave, option = branches.pop()
                yield from self._run(Path([*before[:leave], option]), spent)

    def _run(self, path: Path, spent: int) -> Iterator[Path]:
        self._in_hand = True
        yield path
        self._branch(path, spent)
        self._in_hand = False

    def _branch(self, path: Path, spent: int) -> None:
        """Where else the run could have gone, at the places beyond its prefix."""
        choices, room = path.choices(), self.bound - spent
        for at, options in enumerate(path.seen, len(path.prefix)):
            for other in range(1, len(options)):
                cost = self._cost(options[other])
                if cost <= room:
                    self._to_come[spent + cost].append((choices, at, other))


class Path:
    """The given choices, then the default ones."""

    __slots__ = ("_at", "prefix", "seen")

    def __init__(self, prefix: list[int]) -> None:
        self.prefix = prefix
        self._at = 0
        self.seen: list[Sequence[Option]] = []
        """The options at each place beyond the prefix."""

    def choose(self, options: Sequence[Option]) -> int:
        """What the prefix says, then 0."""
        at = self._at
        if at < len(self.prefix):
            self._at = at + 1
            return self.prefix[at]
        self.seen.append(options)
        return 0

    def choices(self) -> list[int]:
        """All that were taken."""
        return self.prefix + [0] * len(self.seen)
