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
        """Send SIGSTOP."""
        subject.signal(signal.SIGSTOP)
