"""Too few descriptors: the next thing that needs one fails."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class Starve:
    """Lower the role's limit of open files to what it has open and ``spare`` more."""

    name = "starve"
    summary = "a limit of descriptors at what is open now and `spare` more"
    ends = False

    def act(self, subject: Subject) -> None:
        """Tell the role to limit itself."""
        subject.obey()
