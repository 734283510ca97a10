"""os._exit: the process ends without clean-up, by its own doing."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class ExitNow:
    """``os._exit(3)`` at a point, or between two operations."""

    name = "exit"
    summary = "os._exit(3): no clean-up, no signal"
    ends = True

    def act(self, subject: Subject) -> None:
        """Tell the role to exit from where it is."""
        if subject.at_point:
            subject.release("exit")
        else:
            subject.obey()
