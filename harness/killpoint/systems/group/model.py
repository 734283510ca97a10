"""Specification of a process group: a lane for each pair of ranks, and the meeting of a barrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Step = Literal["", "duplicate", "reordered", "skipped", "unknown"]
"""Verdict on an arrival: right (empty); had before; from behind; from ahead; never sent there."""


class Lane:
    """Objects from one rank to another, in the order in which they were sent."""

    def __init__(self, sent: Sequence[int]) -> None:
        """``sent``: the numbers of the objects, in order."""
        self._place = {number: index for index, number in enumerate(sent)}
        self._sent = list(sent)
        self._had: set[int] = set()
        self._next = 0

    def due(self) -> int | None:
        """Return the number of the object that comes next; None if all have been taken."""
        return self._sent[self._next] if self._next < len(self._sent) else None

    def take(self, number: int) -> Step:
        """Take an object that has arrived."""
        index = self._place.get(number)
        if index is None:
            return "unknown"
        if index < self._next:
            return "duplicate" if number in self._had else "reordered"
        ahead = index > self._next
        self._had.add(number)
        self._next = index + 1
        return "skipped" if ahead else ""


class BarrierModel:
    """One barrier: the ranks that have entered so far."""

    def __init__(self, ranks: int) -> None:
        """Start with no rank inside."""
        self._ranks = ranks
        self._come: set[int] = set()

    def come(self, rank: int) -> None:
        """Have a rank enter."""
        self._come.add(rank)

    def missing(self) -> list[int]:
        """Return the ranks that the others wait for; empty once all may go on."""
        return [rank for rank in range(self._ranks) if rank not in self._come]
