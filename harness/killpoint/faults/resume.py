"""SIGCONT: a stopped process goes on from where it stood."""

from __future__ import annotations

import signal

from killpoint.faults.subject import Subject


class Continue:
    """Let a stopped role go on."""

    name = "continue"
    summary = "SIGCONT, and a release from the point it was stopped at"
    ends = False

    def act(self, subject: Subject) -> None:
        """Send SIGCONT, then release."""
        subject.signal(signal.SIGCONT)
        if subject.at_point:
            subject.release("go")
