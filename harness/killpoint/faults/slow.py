"""A slow reader: it takes its time before each receive."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class Slow:
    """Throttle a reader by ``pause`` seconds a message."""

    name = "slow"
    summary = "a pause before each receive"
    ends = False

    def act(self, subject: Subject) -> None:
        """Tell the role to pause."""
        subject.obey()
