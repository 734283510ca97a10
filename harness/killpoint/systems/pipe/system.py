"""A KV-transfer pipe as a system."""

from __future__ import annotations

from collections.abc import Iterator

from killpoint import scenario as script
from killpoint.scenario import AnyStep, Scenario
from killpoint.scenario_errors import Place
from killpoint.systems.base import System, unplayable_link_of_member
from killpoint.systems.pipe.validate import unplayable_pipe

LEAVES_WITHIN = 8.0
"""Seconds, as for a group."""


class PipeSystem(System):
    """The roles are its ranks: each sends to the next one."""

    name = "pipe"
    joins = (script.PipeOpen,)
    looks_in_roles = True
    next_start = (script.PipeOpen(), script.Wait(within=20.0))

    def unplayable(self, scenario: Scenario) -> Iterator[tuple[Place, str]]:
        """See the base class."""
        return unplayable_pipe(scenario)

    def unplayable_link_fault(
        self, scenario: Scenario, step: script.Fault
    ) -> Iterator[tuple[Place, str]]:
        """See the base class."""
        return unplayable_link_of_member(scenario, step)

    def ends(self, roles: tuple[str, ...]) -> tuple[AnyStep, ...]:
        """See the base class."""
        return (script.PipeClose(roles),)

    def numbers_taken(self, step: AnyStep, role: str) -> int:
        """See the base class."""
        del role
        if isinstance(step, script.PipeSend):
            return sum(tensor.repeat for tensor in step.tensors)
        if isinstance(step, script.BlocksSend):
            return sum(tensor.repeat for tensor in step.blocks)
        return 0

    def leaves_within(self, scenario: Scenario) -> float:
        """See the base class."""
        del scenario
        return LEAVES_WITHIN

    def needs_torch(self, scenario: Scenario) -> bool:
        """See the base class: a pipe carries tensors."""
        del scenario
        return True


SYSTEM = PipeSystem()
