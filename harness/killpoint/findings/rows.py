"""A run's violations by finding: what ``verdict.json``, the card and reports list first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from killpoint.findings.registry import IMPACTS, Finding, Impact, findings
from killpoint.verdict import WORST_FIRST, CaseViolation, TargetLine, counted

NEW: Literal["new"] = "new"
"""Stands for an entry's id: no entry of the registry explains the violation."""
UNREPRODUCED: Literal["not-reproduced"] = "not-reproduced"
"""Stands for an entry's id: unknown, since the violation was not shown again."""
NO_REGISTRY = "the registry has no finding of this target"
"""Reason why each violation of the reference, or of a user's own module, is new."""


class JudgedCase(Protocol):
    """A case of a run, played just now or stored."""

    id: str
    violations: list[CaseViolation]


class Row(msgspec.Struct):
    """A finding as one run shows it."""

    id: str
    """An entry's, ``new``, or ``not-reproduced``."""
    impact: Impact
    symptom: str
    place: TargetLine | None
    cases: list[str]
    exhibit: str = ""
    """Case that shows it best."""
    replay: str | None = None
    """File that plays the exhibit again."""

    @property
    def is_entrys(self) -> bool:
        """True if it has an entry in the registry, as far as this killpoint knows."""
        return self.id not in (NEW, UNREPRODUCED)

    def words(self) -> str:
        """Return words such as ``bites: late-replies: after one worker call that failed …``."""
        named = f"{self.impact}: " if self.is_entrys else ""
        return f"{named}{self.id}: {self.symptom}"

    def where(self) -> str:
        """Return its place, how many cases show it, and which one does so best."""
        place = f"{self.place.words()}; " if self.place is not None else ""
        best = f", best by {self.exhibit}" if self.exhibit else ""
        return f"{place}{counted(len(self.cases), 'cases')}{best}"


def rows(cases: Iterable[JudgedCase]) -> list[Row]:
    """Return one row a finding, the worst impact first; unattributed violations are in none."""
    gathered: dict[str, list[tuple[str, CaseViolation]]] = {}
    for case in cases:
        for violation in case.violations:
            if violation.finding is not None:
                gathered.setdefault(violation.finding, []).append((case.id, violation))
    order = list(IMPACTS)
    found = [_row(id, shown) for id, shown in gathered.items()]
    return sorted(found, key=lambda row: order.index(row.impact))


def listed(cases: Sequence[JudgedCase]) -> list[Row]:
    """Return the rows for people; none where all violations are new for want of a registry."""
    told = {v.how for case in cases for v in case.violations if v.finding is not None}
    return [] if told <= {NO_REGISTRY} else rows(cases)


def named_finding(case: JudgedCase) -> str:
    """Return the worst violation's finding, as ``bites: late-replies``; empty: not asked."""
    whose = [v.finding for v in case.violations[:1] if v.how != NO_REGISTRY]
    if not whose or whose[0] is None:
        return ""
    entry = findings().get(whose[0])
    return f"{entry.impact}: {entry.id}" if entry is not None else whose[0]


def unattributed(cases: Iterable[JudgedCase]) -> int:
    """Return the number of violations that are not attributed."""
    return sum(violation.finding is None for case in cases for violation in case.violations)


def _row(id: str, shown: Sequence[tuple[str, CaseViolation]]) -> Row:
    entry = findings().get(id)
    exhibit, violation = min(shown, key=lambda each: _rank(entry, *each))
    cases = list(dict.fromkeys(case for case, _ in shown))
    if entry is None:
        impact: Impact = UNREPRODUCED if id == UNREPRODUCED else NEW
        why = "that was not shown again" if id == UNREPRODUCED else "that no finding explains"
        more = f"{counted(len(shown), 'violations')} {why}"
        symptom = violation.cause if len(shown) == 1 else more
        return Row(id, impact, symptom, violation.place, cases, exhibit, violation.replay)
    place = TargetLine(entry.place.file, entry.place.function, _line(entry, shown))
    return Row(id, entry.impact, entry.symptom, place, cases, exhibit, violation.replay)


def _rank(entry: Finding | None, case: str, violation: CaseViolation) -> tuple[bool, str, int]:
    """Smaller is the better exhibit: the entry's own, then the gravest."""
    others = entry is None or case != entry.exhibit
    return others, violation.level, WORST_FIRST.index(violation.kind)


def _line(entry: Finding, shown: Sequence[tuple[str, CaseViolation]]) -> int | None:
    """Return the line in the entry's own function where a violation shows, if one does."""
    places = [violation.place for _, violation in shown]
    return next((place.line for place in places if place and _is_in(entry, place)), None)


def _is_in(entry: Finding, place: TargetLine) -> bool:
    return (place.file, place.function) == (entry.place.file, entry.place.function)
