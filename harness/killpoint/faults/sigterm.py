"""SIGTERM: the process is asked to end, and may do so as it likes."""

from __future__ import annotations

import signal

from killpoint.faults.subject import Subject


class Sigterm:
    """Send SIGTERM, and let the role go on from its point, if it stands at one."""

    name = "sigterm"
    summary = "SIGTERM, at once or where the role stands"
    ends = False

    def act(self, subject: Subject) -> None:
        """The signal is there before the release: what it does, it does at the point."""
        subject.signal(signal.SIGTERM)
        if subject.at_point:
            subject.release("go")
