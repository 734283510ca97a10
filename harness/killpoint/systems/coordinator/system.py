"""A data-parallel coordinator as a system."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from killpoint import scenario as script
from killpoint.scenario import AnyStep, Scenario
from killpoint.scenario_errors import Place
from killpoint.systems.base import System
from killpoint.systems.coordinator.validate import unplayable_coordinator

PARENT = "parent"


class CoordinatorSystem(System):
    """The roles are the parent, the coordinator that it starts, and the coordinator's peers."""

    name = "coordinator"
    opens = (script.CoordinatorStart,)
    attaches = (script.Connect,)
    needed = (script.WaitNews,)
    looks_in_roles = False
    listens = False
    kept_whole = "a coordinator's story is kept as it is"  # who is not asked for hears nothing
    next_start = (
        script.CoordinatorStart(timeout=30.0),
        script.Connect(),
        script.WaitNews(("front-ends",), "state", within=5.0),
        script.Wait(within=10.0),
    )

    def unplayable(self, scenario: Scenario) -> Iterator[tuple[Place, str]]:
        """See the base class."""
        return unplayable_coordinator(scenario)

    def unplayable_link_fault(
        self, scenario: Scenario, step: script.Fault
    ) -> Iterator[tuple[Place, str]]:
        """See the base class."""
        del scenario, step  # that needs hosts of their own, which is checked with its faults
        yield from ()

    def ends(self, roles: tuple[str, ...]) -> tuple[AnyStep, ...]:
        """See the base class: peers go first, then their coordinator."""
        peers = tuple(role for role in roles if role != PARENT)
        last = (script.CoordinatorClose(),) if PARENT in roles else ()
        return (script.Disconnect(peers), *last)

    def rank(self, scenario: Scenario, role: str, step: AnyStep) -> int:
        """See the base class: the engine's, unless the step names one."""
        if isinstance(step, script.Connect) and step.rank is not None:
            return step.rank
        engines = scenario.engines()
        return engines.index(role) if role in engines else 0

    def order_data(self, scenario: Scenario, step: AnyStep) -> bytes:
        """See the base class."""
        if isinstance(step, script.CoordinatorStart):
            return msgspec.json.encode(scenario.coordinator)
        return b""


SYSTEM = CoordinatorSystem()
