"""A long way: bytes arrive late, in order."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class Delay:
    """Give the role's connections a latency of ``pause`` seconds."""

    name = "delay"
    summary = "what the role's TCP connections carry takes `pause` seconds"
    ends = False

    def act(self, subject: Subject) -> None:
        """Tell the relay."""
        subject.on_the_wire(self.name)
