"""The end of a cut, a delay, or a half-open time."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class Heal:
    """Let the role's connections go on; what a half-open one has lost stays lost."""

    name = "heal"
    summary = "ends cut, delay and half-open of the role's connections"
    ends = False

    def act(self, subject: Subject) -> None:
        """Tell the relay, or whoever keeps the links."""
        subject.on_the_wire(self.name)
