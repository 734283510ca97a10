"""Random walks: at each choice, with some probability, anything but the default."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from killpoint.interfaces import Option


class RandomWalk:
    """A given number of walks. Finds what lies beyond every bound, and promises nothing.

    A walk with one deviation in five finds other things than one with one in ten, so the
    probability is drawn for each walk, up to ``most``.

    ``part``: only every second (third …) of them, from which on: others walk the rest.
    """

    def __init__(
        self, count: int, most: float = 0.3, seed: int = 0, part: tuple[int, int] = (0, 1)
    ) -> None:
        self.name = f"{count} random walks"
        self._count, self._most, self._part = count, most, part
        self._random = random.Random(seed)
        self._given = 0

    @property
    def exhausted(self) -> bool:
        """True if as many schedules were given as asked for."""
        return self._given >= self._count

    def __iter__(self) -> Iterator[Walk]:
        """The next walk."""
        which, parts = self._part
        while self._given < self._count:
            walk = Walk(random.Random(self._random.getrandbits(64)), self._most)
            if self._given % parts == which:
                yield walk
            self._given += 1


class Walk:
    """One of them."""

    __slots__ = ("_below", "_draw", "_probability")

    def __init__(self, generator: random.Random, most: float) -> None:
        self._draw, self._below = generator.random, generator.randrange
        self._probability = most * (0.25 + 0.75 * generator.random())

    def choose(self, options: Sequence[Option]) -> int:
        """Mostly 0."""
        if self._draw() >= self._probability:
            return 0
        return self._below(1, len(options))
