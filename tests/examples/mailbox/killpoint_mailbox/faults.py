"""The fault of its own: it shows that M1's judge sees a letter that is lost."""

from __future__ import annotations

from killpoint.faults.base import FaultTarget


class LoseLetter:
    """The role counts its next letter as posted, and does not post it."""

    name = "lose-letter"
    summary = "the next letter of a poster is lost on its way"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Have the role do it to itself between two steps."""
        target.inject_in_role()
