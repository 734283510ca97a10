"""Faults of a role's connections, which the relay, or the keeper of its link, applies."""

from __future__ import annotations

from killpoint.faults.base import FaultTarget


class Cut:
    """Hold up what the role's connections carry, without losing any of it."""

    name = "cut"
    summary = "the role's TCP connections stand still, and new ones get no answer, until a heal"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Tell the relay, or whoever keeps the links."""
        target.apply_to_connections(self.name)


class Heal:
    """Let the role's connections go on; what a half-open one has lost stays lost."""

    name = "heal"
    summary = "ends cut, delay and half-open of the role's connections"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Tell the relay, or whoever keeps the links."""
        target.apply_to_connections(self.name)


class Delay:
    """Give the role's connections a latency of ``pause`` seconds."""

    name = "delay"
    summary = "what the role's TCP connections carry takes `pause` seconds"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Tell the relay."""
        target.apply_to_connections(self.name)


class Reset:
    """Reset the role's connections."""

    name = "reset"
    summary = "the role's TCP connections are reset on both sides; new ones are allowed at once"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Tell the relay."""
        target.apply_to_connections(self.name)


class HalfOpen:
    """Lose what flows in one direction; a heal is for new connections only."""

    name = "half-open"
    summary = "what the role's TCP connections carry in one direction is dropped for good"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Tell the relay."""
        target.apply_to_connections(self.name)
