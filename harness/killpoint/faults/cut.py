"""A cut: nothing gets through, and nobody is told."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class Cut:
    """Hold up what the role's connections carry, without losing any of it."""

    name = "cut"
    summary = "the role's TCP connections stand still, and new ones get no answer, until a heal"
    ends = False

    def act(self, subject: Subject) -> None:
        """Tell the relay, or whoever keeps the links."""
        subject.on_the_wire(self.name)
