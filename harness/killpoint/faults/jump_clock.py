"""The wall clock jumps, as when somebody sets it; the monotonic clock goes on."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class JumpClock:
    """``time.time`` of one role moves by ``hours``, at a point or between two operations."""

    name = "jump-clock"
    summary = "the role's time.time() jumps by some hours, back or forth"
    ends = False

    def act(self, subject: Subject) -> None:
        """Tell the role to move its clock where it is."""
        if subject.at_point:
            subject.release(f"jump {subject.hours}")
        else:
            subject.obey()
