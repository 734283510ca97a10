"""The outcome of a review: findings new and gone, and undecided cases."""

from __future__ import annotations

import msgspec

from killpoint.findings.registry import IMPACTS, findings
from killpoint.findings.rows import NEW
from killpoint.review.change import ChangedFile
from killpoint.verdict import CaseViolation, TargetLine


class Difference(msgspec.Struct):
    """Violations of one finding that one side shows, in cases that the other side does not fail."""

    id: str
    """An entry of the registry, or ``new``."""
    impact: str
    symptom: str
    kind: str
    cause: str
    place: TargetLine | None
    cases: list[str]
    replay: str | None = None
    elsewhere: bool = False
    """The finding is in both copies: other cases show it in both."""
    again: bool = True
    """True if its replay was played again on both sides; there may be no time for it."""

    def rank(self) -> int:
        """The worst impact first."""
        return list[str](IMPACTS).index(self.impact)


class Review(msgspec.Struct):
    """A tree against a revision of it."""

    target: str
    base: str
    """The revision as it was asked for, and the commit with its subject."""
    seed: int = 0
    changes: list[ChangedFile] = []
    new: list[Difference] = []
    gone: list[Difference] = []
    unsure: list[str] = []
    """Lines on cases of which it cannot be told whether the change broke them."""
    chance: list[str] = []
    """Cases that ended otherwise by chance: the intervals of their rates overlap."""
    otherwise: list[str] = []
    """Cases that both sides violate by one kind, in other words: they cannot be distinguished."""
    as_before: int = 0
    """Violations that both sides show."""
    compared: int = 0
    """Cases that were decided on both sides."""
    left_out: list[str] = []
    """Cases that the budget left no time for, on the tree or on its base."""
    seconds: float = 0.0

    def status(self) -> int:
        """Exit status: 1 if something is violated anew, 3 if it could not be told, else 0."""
        if self.new:
            return 1
        return 3 if self.unsure or (self.changes and not self.compared) else 0


def difference(violation: CaseViolation, cases: list[str]) -> Difference:
    """Return the difference of violations of one finding, in the first one's words."""
    entry = findings().get(violation.finding or NEW)
    place = violation.place
    if place is None and entry is not None:
        place = TargetLine(entry.place.file, entry.place.function)
    return Difference(
        entry.id if entry else NEW,
        entry.impact if entry else NEW,
        entry.symptom if entry else violation.cause,
        violation.kind,
        violation.cause,
        place,
        cases,
        violation.replay,
    )
