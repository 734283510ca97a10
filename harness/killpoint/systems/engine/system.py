"""A whole engine, driven through its own interface, as a system."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from killpoint import scenario as script
from killpoint.scenario import AnyStep, Scenario
from killpoint.scenario_errors import Place
from killpoint.systems.base import System, starts_at_once
from killpoint.systems.engine.validate import unplayable_engine

LEAVES_WITHIN = 20.0
"""Seconds for an engine to be stopped, whatever was done to it."""


_STARTS_ON_TRIAL = frozenset({"L1", "S1", "S2", "S3", "S4"})


class EngineSystem(System):
    """The roles are the front end, which holds the engine, and the engine's processes."""

    name = "engine"
    brief_exit = False
    needed = (script.WaitHealthy,)
    listens = False
    kept_whole = "an engine's story is kept as it is"  # each of its plays takes many seconds
    next_start = (
        script.EngineStart(timeout=60.0),
        script.Wait(within=90.0),
        script.EngineStop(),
        script.Wait(within=20.0),
    )

    def unplayable(self, scenario: Scenario) -> Iterator[tuple[Place, str]]:
        """See the base class."""
        return unplayable_engine(scenario)

    def ends(self, roles: tuple[str, ...]) -> tuple[AnyStep, ...]:
        """See the base class."""
        del roles
        return (script.EngineStop(),)

    def leaves_within(self, scenario: Scenario) -> float:
        """See the base class."""
        del scenario
        return LEAVES_WITHIN

    def order_data(self, scenario: Scenario, step: AnyStep) -> bytes:
        """See the base class."""
        if isinstance(step, script.EngineStart):
            return msgspec.json.encode(scenario.engine)
        return b""

    def preforks(self, scenario: Scenario) -> bool:
        """See the base class."""
        return starts_at_once(scenario, script.EngineStart, _STARTS_ON_TRIAL)


SYSTEM = EngineSystem()
