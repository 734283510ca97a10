"""A pipe as its specification has it: what was accepted comes out once, in order, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Step = Literal["", "skipped", "duplicate", "reordered", "unknown"]
"""What an arrival was: right (empty), one from ahead, one that was had before, one from behind
that was not, one that was never sent."""


class Sent(msgspec.Struct, frozen=True):
    """A tensor that was given to be sent."""

    digest: str
    accepted: bool
    """Whether its call returned well; else it may come or not."""


class PipeLane:
    """One direction between two ranks."""

    def __init__(self, sent: Sequence[Sent]) -> None:
        """``sent``: in order."""
        self._sent = sent
        self._next = 0
        self._had: set[int] = set()
        self.missed: list[int] = []
        """Places of accepted tensors that others were let past."""

    def due(self) -> int | None:
        """The place of the accepted tensor that is to come next, None if all have come."""
        for place in range(self._next, len(self._sent)):
            if self._sent[place].accepted:
                return place
        return None

    def take(self, digest: str) -> Step:
        """A tensor arrives."""
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
