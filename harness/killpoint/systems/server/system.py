"""A whole server, judged from outside, as a system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from killpoint import scenario as script
from killpoint.scenario import Scenario
from killpoint.scenario_errors import Place
from killpoint.systems.base import OwnPlayer, Player
from killpoint.systems.registry import part
from killpoint.systems.server.steps import ServerStart
from killpoint.systems.server.validate import unplayable_server


class ServerSystem(OwnPlayer):
    """Whole servers as a system; the roles are processes of its tree, known by their titles."""

    name = "server"
    listens = False

    def unplayable(self, scenario: Scenario) -> Iterator[tuple[Place, str]]:
        """See the base class."""
        return unplayable_server(scenario)

    def unplayable_link_fault(
        self, scenario: Scenario, step: script.Fault
    ) -> Iterator[tuple[Place, str]]:
        """See the base class."""
        del scenario, step  # that is checked with its other faults
        yield from ()

    def key(self, scenario: Scenario) -> bytes:
        """Return what scenarios share that are one play, judged by different invariants."""
        plain = msgspec.structs.replace(scenario, case="", judges=[], title="", target="")
        return msgspec.json.encode(plain)

    def as_users(self, scenario: Scenario) -> bool:
        """Return whether a step starts the server as its users do."""
        return any(isinstance(step, ServerStart) and step.ordinary for step in scenario.steps)

    def player(self, spec: str, root: Path) -> Player:
        """Return the player of servers for a resolved spec."""
        return part(self.name, "player").ServerPlayer(spec, root)


SYSTEM = ServerSystem()
