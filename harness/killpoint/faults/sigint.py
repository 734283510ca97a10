"""SIGINT: what Ctrl-C sends, here to one process alone."""

from __future__ import annotations

import signal

from killpoint.faults.subject import Subject


class Sigint:
    """Send SIGINT, and let the role go on from its point, if it stands at one."""

    name = "sigint"
    summary = "SIGINT to this one process, at once or where it stands"
    ends = False

    def act(self, subject: Subject) -> None:
        """The signal is there before the release: what it does, it does at the point."""
        subject.signal(signal.SIGINT)
        if subject.at_point:
            subject.release("go")
