"""A half-open connection: one side speaks and is never heard."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class HalfOpen:
    """Lose what flows in one direction; a heal is for new connections only."""

    name = "half-open"
    summary = "what the role's TCP connections carry in one direction is dropped for good"
    ends = False

    def act(self, subject: Subject) -> None:
        """Tell the relay."""
        subject.on_the_wire(self.name)
