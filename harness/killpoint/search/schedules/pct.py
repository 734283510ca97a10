"""Probabilistic concurrency testing: random priorities that change at few places.

A bug of depth d among n tasks and k choices is found with probability at least 1/(n·k^(d-1)) a
run (Burckhardt et al., ASPLOS 2010).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from killpoint.interfaces import Option

_SURROUNDINGS = "-"
_OTHERWISE = 0.6
"""Greatest probability that a task sees another value than the default; drawn for each run."""


class PCT:
    """A given number of runs of depth ``depth``. The environment counts as one task more.

    ``part``: only every second (third …) of them, from which on: others make the rest.
    """

    def __init__(
        self, count: int, depth: int = 3, seed: int = 0, part: tuple[int, int] = (0, 1)
    ) -> None:
        self.name = f"{count} by PCT (depth {depth})"
        self._count, self._depth, self._part = count, depth, part
        self._random = random.Random(seed)
        self._length = 50
        """The longest run so far, in choices."""
        self._given = 0

    @property
    def exhausted(self) -> bool:
        """True if as many schedules were given as asked for."""
        return self._given >= self._count

    def __iter__(self) -> Iterator[Priorities]:
        """The next run."""
        which, parts = self._part
        while self._given < self._count:
            generator = random.Random(self._random.getrandbits(64))
            if self._given % parts == which:
                run = Priorities(generator, self._length, self._depth)
                yield run
                self._length = max(self._length, run.length)
            self._given += 1


class Priorities:
    """One run: the task of the highest priority goes on; at a change point it gets the lowest."""

    def __init__(self, generator: random.Random, length: int, depth: int) -> None:
        self.length = 0
        self._generator = generator
        self._priority: dict[str, float] = {}
        self._best: dict[int, tuple[Sequence[Option], int]] = {}
        """Options offered since a priority changed, by their identity."""
        self._otherwise = _OTHERWISE * generator.random()
        self._changes = {generator.randrange(length): -at for at in range(1, depth)}

    def choose(self, options: Sequence[Option]) -> int:
        """The option of the highest priority."""
        self.length += 1
        if options[0].value:
            return self._value(len(options))
        known = self._best.get(id(options))
        best = known[1] if known else self._highest(options)
        lowered = self._changes.get(self.length)
        if lowered is not None:
            self._priority[options[best].task or _SURROUNDINGS] = lowered
            self._best.clear()
            best = self._highest(options)
        if options[best].task is None:
            first = next(at for at, option in enumerate(options) if option.task is None)
            return self._generator.randrange(first, len(options))
        return best

    def _highest(self, options: Sequence[Option]) -> int:
        best = max(range(len(options)), key=lambda at: self._of(options[at]))
        self._best[id(options)] = options, best
        return best

    def _of(self, option: Option) -> float:
        name = option.task or _SURROUNDINGS
        if name not in self._priority:
            self._priority[name] = self._generator.random()
        return self._priority[name]

    def _value(self, count: int) -> int:
        generator = self._generator
        return generator.randrange(1, count) if generator.random() < self._otherwise else 0
