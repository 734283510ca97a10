"""The search itself: what is known of a line of candidates, and which one to ask next."""

from __future__ import annotations

from typing import Literal

import msgspec

Decided = Literal["held", "violated"]
Word = Literal["held", "violated", "skipped"]
"""Outcome of a candidate; ``skipped``: it could not be judged."""


class Bracket(msgspec.Struct, frozen=True):
    """Two candidates that differ, and those between them that were not asked yet.

    Candidates are numbered from the oldest. A skipped one is neither an end nor left.
    """

    low: int
    high: int
    older: Decided
    """Outcome of ``low``; ``high`` has the opposite one."""
    left: tuple[int, ...]
    """Between them and not asked yet, in order."""

    @staticmethod
    def around(count: int, older: Decided) -> Bracket:
        """The whole line of ``count`` candidates, whose ends are known to differ."""
        return Bracket(0, count - 1, older, tuple(range(1, count - 1)))

    def middle(self) -> int | None:
        """The candidate to ask next: it halves what is left. None: the search is over.

        After a skip it is the nearest neighbour of what was skipped, on the longer side.
        """
        return self.left[len(self.left) // 2] if self.left else None

    def steps(self) -> int:
        """Return the largest number of candidates still to be asked, if none of them is skipped."""
        return len(self.left).bit_length()

    def told(self, candidate: int, word: Word) -> Bracket:
        """Return the bracket after a candidate that was left has been asked."""
        if word == "skipped":
            left = tuple(each for each in self.left if each != candidate)
            return msgspec.structs.replace(self, left=left)
        if word == self.older:
            left = tuple(each for each in self.left if each > candidate)
            return msgspec.structs.replace(self, low=candidate, left=left)
        left = tuple(each for each in self.left if each < candidate)
        return msgspec.structs.replace(self, high=candidate, left=left)
