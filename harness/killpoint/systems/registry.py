"""Every system that plays its own scenarios."""

from __future__ import annotations

from killpoint.scenario import Scenario
from killpoint.systems.base import System
from killpoint.systems.server.system import ServerSystem

SYSTEMS: tuple[System, ...] = (ServerSystem(),)


def system_of(scenario: Scenario) -> System | None:
    """The one that plays it; None: the stage does so itself."""
    return next((system for system in SYSTEMS if system.owns(scenario)), None)
