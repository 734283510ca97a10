"""Faults of a role's connections, which the relay, or the keeper of its link, applies."""

from __future__ import annotations

from killpoint.faults.base import FaultTarget


class Cut:
    """Hold up the data of the role's connections, without losing any of it."""

    name = "cut"
    summary = "the role's TCP connections stand still, and new ones get no answer, until a heal"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Have the relay, or the keeper of the links, apply it."""
        target.apply_to_connections(self.name)


class Heal:
    """Let the role's connections go on; data that a half-open one has lost stays lost."""

    name = "heal"
    summary = "ends cut, delay and half-open of the role's connections"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Have the relay, or the keeper of the links, apply it."""
        target.apply_to_connections(self.name)


class Delay:
    """Give the role's connections a latency of ``pause`` seconds."""

    name = "delay"
    summary = "what the role's TCP connections carry takes `pause` seconds"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Have the relay apply it."""
        target.apply_to_connections(self.name)


class Reset:
    """Reset the role's connections."""

    name = "reset"
    summary = "the role's TCP connections are reset on both sides; new ones are allowed at once"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Have the relay apply it."""
        target.apply_to_connections(self.name)


class HalfOpen:
    """Drop the data of one direction; a heal affects new connections only."""

    name = "half-open"
    summary = "what the role's TCP connections carry in one direction is dropped for good"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Have the relay apply it."""
        target.apply_to_connections(self.name)
