"""Specification of a pipe: accepted tensors come out once, in order, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Step = Literal["", "skipped", "duplicate", "reordered", "unknown"]
"""Verdict on an arrival: right (empty), one from ahead, one that was had before, one from behind
that was not, one that was never sent."""


class Sent(msgspec.Struct, frozen=True):
    """A tensor handed to a send call."""

    digest: str
    accepted: bool
    """True if its call returned well; else it may come or not."""


class PipeLane:
    """One direction between two ranks."""

    def __init__(self, sent: Sequence[Sent]) -> None:
        """``sent``: the tensors, in the order in which they were sent."""
        self._sent = sent
        self._next = 0
        self._had: set[int] = set()
        self.missed: list[int] = []
        """Indices of accepted tensors that later ones overtook."""

    def due(self) -> int | None:
        """Return the index of the accepted tensor that comes next, None if all have come."""
        for place in range(self._next, len(self._sent)):
            if self._sent[place].accepted:
                return place
        return None

    def take(self, digest: str) -> Step:
        """Take a tensor that has arrived."""
        for place in range(self._next, len(self._sent)):
            if self._sent[place].digest == digest:
                passed = [each for each in range(self._next, place) if self._sent[each].accepted]
                self.missed += passed
                self._had.add(place)
                self._next = place + 1
                return "skipped" if passed else ""
        behind = [place for place in range(self._next) if self._sent[place].digest == digest]
        if not behind:
            return "unknown"
        return "duplicate" if self._had & {*behind} else "reordered"
