"""SIGKILL: the process ends where it stands."""

from __future__ import annotations

import signal

from killpoint.faults.subject import Subject


class Kill:
    """End the process with nothing run on the way out."""

    name = "kill"
    summary = "SIGKILL, at once or where the role stands"
    ends = True

    def act(self, subject: Subject) -> None:
        """Send SIGKILL."""
        subject.signal(signal.SIGKILL)
