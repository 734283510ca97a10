"""RST: the connections are gone at once, with what was on its way."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class Reset:
    """Reset the role's connections."""

    name = "reset"
    summary = "the role's TCP connections are reset on both sides; new ones are allowed at once"
    ends = False

    def act(self, subject: Subject) -> None:
        """Tell the relay."""
        subject.on_the_wire(self.name)
