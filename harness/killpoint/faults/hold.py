"""A hold: the role stands at its point, so that something can be done to another one meanwhile."""

from __future__ import annotations

from killpoint.errors import BadUsage
from killpoint.faults.subject import Subject


class Hold:
    """Leave the role standing at its point until a ``continue``."""

    name = "hold"
    summary = "the role stands at its point, unharmed, until a later continue"
    ends = False

    def act(self, subject: Subject) -> None:
        """Nothing: where it stands it stays."""
        if not subject.at_point:
            raise BadUsage("fault hold needs a point: give it `at`")
        subject.held = True
