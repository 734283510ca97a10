"""A process group as its specification has it: a lane for each pair, and a meeting in a barrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Step = Literal["", "duplicate", "reordered", "skipped", "unknown"]
"""What an arrival was: right (empty), one that was had before, one from behind, one from ahead,
one that was never sent there."""


class Lane:
    """What one rank gets of another, in the order in which it was sent."""

    def __init__(self, sent: Sequence[int]) -> None:
        """``sent``: the numbers of the objects, in order."""
        self._place = {number: index for index, number in enumerate(sent)}
        self._sent = list(sent)
        self._had: set[int] = set()
        self._next = 0

    def due(self) -> int | None:
        """The number that comes next; None if everything was had."""
        return self._sent[self._next] if self._next < len(self._sent) else None

    def take(self, number: int) -> Step:
        """An object arrives."""
        index = self._place.get(number)
        if index is None:
            return "unknown"
        if index < self._next:
            return "duplicate" if number in self._had else "reordered"
        ahead = index > self._next
        self._had.add(number)
        self._next = index + 1
        return "skipped" if ahead else ""


class Meeting:
    """One barrier: who has come so far."""

    def __init__(self, ranks: int) -> None:
        """Nobody has come."""
        self._ranks = ranks
        self._come: set[int] = set()

    def come(self, rank: int) -> None:
        """A rank enters."""
        self._come.add(rank)

    def missing(self) -> list[int]:
        """For whom the others wait; empty once they may go on."""
        return [rank for rank in range(self._ranks) if rank not in self._come]
