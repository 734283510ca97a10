"""An exception that appears between two lines of the target's code."""

from __future__ import annotations

from killpoint.errors import BadUsage
from killpoint.faults.subject import Subject


class RaiseError:
    """Raise at a point, as a signal handler would."""

    name = "raise"
    summary = "an exception raised at a point inside the target's code"
    ends = False

    def act(self, subject: Subject) -> None:
        """Tell the role to raise from its point."""
        if not subject.at_point:
            raise BadUsage("fault raise needs a point: give it `at`")
        subject.release("raise")
