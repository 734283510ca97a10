"""SIGSTOP: the process lives but does nothing."""

from __future__ import annotations

import signal

from killpoint.faults.subject import Subject


class Stop:
    """Freeze the process until a ``continue``."""

    name = "stop"
    summary = "SIGSTOP, until a later continue"
    ends = False

    def act(self, subject: Subject) -> None:
        """Send SIGSTOP; at the point of its stop the role has sent it to itself already."""
        if subject.at_point and not subject.held:
            subject.has_stopped()
        else:
            subject.signal(signal.SIGSTOP)
