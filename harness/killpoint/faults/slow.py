"""A slow party: it takes its time before each message."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class Slow:
    """Throttle a role by ``pause`` seconds a message."""

    name = "slow"
    summary = "a pause before each send or receive"
    ends = False

    def act(self, subject: Subject) -> None:
        """Tell the role to pause."""
        subject.obey()
