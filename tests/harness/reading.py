"""A player that plays nothing: what a case would have played is read off it."""

from __future__ import annotations

from pathlib import Path

from synthetic import Tape

from killpoint.ledger import Ledger
from killpoint.runner.stage import Play
from killpoint.scenario import Scenario


class Reading:
    """Keeps every scenario that it is given; ``tape`` is the record that each play has."""

    def __init__(self) -> None:
        self.played: list[Scenario] = []

    def tape(self, scenario: Scenario) -> Tape:
        """An empty one."""
        del scenario
        return Tape()

    def play(self, scenario: Scenario) -> Play:
        self.played.append(scenario)
        return Play(scenario, self.tape(scenario).history(), Ledger(), [], "", Path(), 0.0)

    def forget(self, play: Play) -> None:
        """Nothing is kept."""
