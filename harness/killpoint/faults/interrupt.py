"""A signal whose handler raises, as Ctrl-C does: at a point, or wherever a call waits."""

from __future__ import annotations

import signal

from killpoint.faults.subject import Subject


class Interrupt:
    """SIGUSR1; every role has a handler for it that raises inside the target's code."""

    name = "interrupt"
    summary = "a signal handler raises in the role, at a point or in the call it waits in"
    ends = False

    def act(self, subject: Subject) -> None:
        """Have the role send it to itself where it stands, or send it now."""
        if subject.at_point:
            subject.release("interrupt")
        else:
            subject.signal(signal.SIGUSR1)
