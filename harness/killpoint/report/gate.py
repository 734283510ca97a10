"""Gate: sorts a run's violations into new ones, known ones and those that are gone."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from killpoint.findings.registry import finding
from killpoint.report.known import Known, find
from killpoint.report.run_folder import StoredCase, StoredRun

_JUDGED = ("violated", "inconclusive")


class Gate(msgspec.Struct):
    """A run, with what is known of its target taken out."""

    status: int
    """Exit status: 1 something new or something gone; 3 inconclusive or nothing ran; else 0."""
    new: list[StoredCase]
    """Violations that are not known."""
    known: list[tuple[StoredCase, Known]]
    """Violations that are known."""
    gone: list[Known]
    """Strict entries whose case was played on such a release, and held."""
    doubtful: list[StoredCase]
    """Cases that were inconclusive."""

    def entry_of(self, case: StoredCase) -> Known | None:
        """Return the known failure that a violation is, if it is one."""
        return next((known for each, known in self.known if each is case), None)

    def lines(self) -> list[str]:
        """Return lines on the known failures that were met, and on those that are gone."""
        met = [f"known failure: {known.words()}" for _, known in self.known]
        gone = [f"known failure no longer fails: {known.words()}; remove it" for known in self.gone]
        return met + gone


def gate(run: StoredRun, known: Sequence[Known] = ()) -> Gate:
    """Judge a run as a gate does."""
    mine = [each for each in known if each.is_of(run.target.name, run.target.version)]
    new: list[StoredCase] = []
    met: list[tuple[StoredCase, Known]] = []
    for case in run.cases():
        if case.outcome == "violated":
            entry = find(mine, case.id, case.kind, case.cause) or _of_findings(mine, case)
            if entry is None:
                new.append(case)
            else:
                met.append((case, entry))
    held = {case.id for case in run.cases() if case.outcome == "held"}
    shown = {v.finding for case in run.cases() for v in case.violations}
    gone = [each for each in mine if each.strict and _is_gone(each, held, shown)]
    # What a violation hides in the verdict of its invariant is told once that violation is known.
    judged = {id: v for id, v in run.invariants.items() if v.verdict in _JUDGED}
    doubtful = [c for v in judged.values() for c in v.cases if c.outcome == "inconclusive"]
    unsure = doubtful or any(v.verdict == "inconclusive" for v in judged.values())
    unsure = unsure or any(id.split("/")[0] in judged for id in run.left_out)
    ran = any(case.runs for case in run.cases())
    status = 1 if new or gone else 3 if unsure or not ran else 0
    return Gate(status, new, met, gone, doubtful)


def _of_findings(known: Sequence[Known], case: StoredCase) -> Known | None:
    """The entry of its worst violation, if each one's finding is known."""
    entries = {each.finding: each for each in known if each.finding}
    whose = [violation.finding or "" for violation in case.violations]
    return entries[whose[0]] if whose and all(id in entries for id in whose) else None


def _is_gone(entry: Known, held: set[str], shown: set[str | None]) -> bool:
    """Return whether a known failure is gone: its case, or its finding's unshown exhibit, holds."""
    if not entry.finding:
        return entry.case in held
    return finding(entry.finding).exhibit in held and entry.finding not in shown
