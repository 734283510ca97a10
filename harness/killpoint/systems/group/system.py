"""A stateless process group as a system."""

from __future__ import annotations

from collections.abc import Iterator

from killpoint import scenario as script
from killpoint.scenario import AnyStep, Scenario
from killpoint.scenario_errors import Place
from killpoint.systems.base import System, unplayable_link_of_member

LEAVES_WITHIN = 8.0
"""Seconds; a group's host may linger for a member that is cut off: SPEC G4 sets no limit to it."""


class GroupSystem(System):
    """The roles are the ranks; the first is the host."""

    name = "group"
    joins = (script.Join,)
    next_start = (
        script.Join(),
        script.Broadcast("rank-0", [script.Message()], timeout=5.0),
        script.Barrier(),
        script.Leave(),
        script.Wait(within=20.0),
    )

    def unplayable_link_fault(
        self, scenario: Scenario, step: script.Fault
    ) -> Iterator[tuple[Place, str]]:
        """See the base class."""
        return unplayable_link_of_member(scenario, step)

    def ends(self, roles: tuple[str, ...]) -> tuple[AnyStep, ...]:
        """See the base class."""
        return (script.Leave(roles),)

    def numbers_taken(self, step: AnyStep, role: str) -> int:
        """See the base class: of a broadcast, those of its source."""
        if isinstance(step, script.Gather):
            return step.times
        if isinstance(step, script.SendTo):
            return sum(message.repeat for message in step.messages)
        if isinstance(step, script.Broadcast) and step.source == role:
            return sum(message.repeat for message in step.messages)
        return 0

    def leaves_within(self, scenario: Scenario) -> float:
        """See the base class."""
        del scenario
        return LEAVES_WITHIN

    def needs_torch(self, scenario: Scenario) -> bool:
        """See the base class: a stranger tries what a torch store lets in."""
        return any(isinstance(step, script.Attack) for step in scenario.steps)


SYSTEM = GroupSystem()
