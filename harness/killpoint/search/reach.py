"""Reach of a case: the lines of the target and the model's states that its plays have come to.

A play scores by the lines that it has run, each the more the fewer earlier plays of its case have
run it, and by how many states of the model it came through. Hypothesis mutates programs that score
well, and keeps them among the case's examples for the campaign's next item.
"""

from __future__ import annotations

import msgspec


class CaseReach(msgspec.Struct):
    """What recorded plays of one case have reached."""

    plays: int = 0
    lines: dict[str, dict[int, int]] = {}
    """Number of plays that have run a line, by file and line."""
    states: int = 0
    """Most states of the model that one play came through; 0 where the judge counts none."""

    def add(self, other: CaseReach) -> None:
        """Add what other plays of the case have reached."""
        self.plays += other.plays
        self.states = max(self.states, other.states)
        for file, lines in other.lines.items():
            mine = self.lines.setdefault(file, {})
            for line, plays in lines.items():
                mine[line] = mine.get(line, 0) + plays


class Reach:
    """Reach of a case during one item of a campaign."""

    def __init__(self, before: CaseReach, *, steers: bool) -> None:
        """Start from what earlier items have reached.

        A line's share of a score stays the same until the item's end, so that scores of its plays
        can be compared.
        ``steers``: whether plays are chosen by it, and not only counted.
        """
        self._before = before
        self.steers = steers
        self.added = CaseReach()
        """What this item's plays have reached."""
        self._scores: dict[str, float] = {}

    def take(self, lines: dict[str, list[int]], states: int) -> None:
        """Add a recorded play: the lines that it ran, and the states that its judge counted."""
        one = {file: dict.fromkeys(found, 1) for file, found in lines.items()}
        self.added.add(CaseReach(1, one, states))
        new = sum(self._share(file, line) for file, found in lines.items() for line in found)
        self._scores = {"rarely reached lines": new}
        if states:
            self._scores["model states"] = float(states)

    def scores(self) -> dict[str, float]:
        """Return the scores of the last recorded play, by what they count."""
        return self._scores

    def _share(self, file: str, line: int) -> float:
        """Return the share of a line in a score: 1 if no earlier play has run it, soon little."""
        return 1.0 / (1 + self._before.lines.get(file, {}).get(line, 0))
