"""A worker pool as a system."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from killpoint import scenario as script
from killpoint.scenario import AnyStep, Scenario
from killpoint.scenario_errors import Place
from killpoint.systems.base import System, starts_at_once
from killpoint.systems.pool.validate import unplayable_pool
from killpoint.targets.shapes import Device

LEAVES_WITHIN = 8.0
"""Seconds beside the two graces that its workers are given."""


_STARTS_ON_TRIAL = frozenset({"W7", "W9", "W10", "L1"})


class PoolSystem(System):
    """The roles are the executor and the workers, which it starts."""

    name = "pool"
    brief_exit = False
    counts_descriptors = True
    listens = False
    next_start = (
        script.PoolStart(timeout=60.0),
        script.Call(timeout=10.0),
        script.PoolStop(),
        script.Wait(within=90.0),
    )

    def unplayable(self, scenario: Scenario) -> Iterator[tuple[Place, str]]:
        """See the base class."""
        return unplayable_pool(scenario)

    def ends(self, roles: tuple[str, ...]) -> tuple[AnyStep, ...]:
        """See the base class."""
        del roles
        return (script.PoolStop(),)

    def leaves_within(self, scenario: Scenario) -> float:
        """See the base class."""
        grace = scenario.pool.grace if scenario.pool is not None else 0.0
        return 2 * grace + LEAVES_WITHIN

    def order_data(self, scenario: Scenario, step: AnyStep) -> bytes:
        """See the base class."""
        if isinstance(step, script.PoolStart | script.NextPool | script.Execute):
            return msgspec.json.encode(scenario.pool)
        return b""

    def needs_torch(self, scenario: Scenario) -> bool:
        """See the base class: forked workers are to reduce something together."""
        asked = [s for s in scenario.steps if isinstance(s, script.Call | script.Submit)]
        forked = scenario.pool is not None and scenario.pool.start == "fork"
        return forked and any(step.method == "collective" for step in asked)

    def preforks(self, scenario: Scenario) -> bool:
        """See the base class."""
        default = scenario.pool is not None and scenario.pool.start == "default"
        return default and starts_at_once(scenario, script.PoolStart, _STARTS_ON_TRIAL)

    def on_device(self, scenario: Scenario, device: Device) -> Scenario:
        """See the base class."""
        if scenario.pool is None or device == "cpu":
            return scenario
        pool = msgspec.structs.replace(scenario.pool, device=device)
        return msgspec.structs.replace(scenario, pool=pool)


SYSTEM = PoolSystem()
