"""Comparison of two runs: new violations, those that are gone, and what is undecided now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from killpoint.findings.rows import Row, unattributed
from killpoint.report.run_folder import StoredCase, StoredRun
from killpoint.verdict import Rate, counted

_NOT_RUN = "not run"
_LESS = 0.9
"""Share of an earlier count below which a case gives less evidence than it did. Counts of lines and
of what a deadline left time for differ a little from one run to the next."""


class Side(msgspec.Struct):
    """One of the two runs."""

    run: str
    target: str
    seed: int
    device: str
    full: bool


class CaseChange(msgspec.Struct, omit_defaults=True):
    """A case that ended otherwise."""

    id: str
    before: str
    """``held``, ``not run``, or its class: a kind, ``inconclusive``, ``unsupported``,
    ``infrastructure``."""
    after: str
    cause: str = ""
    """Cause in the second run; where that one has none, in the first."""
    signature: str = ""
    """Signature of the second run's violation, or of the one that is gone."""
    was: str = ""
    """Signature of the first run's violation, where another one has taken its place."""
    replay: str = ""


class VerdictChange(msgspec.Struct):
    """An invariant that ended otherwise."""

    id: str
    before: str
    after: str


class StrengthLoss(msgspec.Struct):
    """A case that held both times, with less evidence the second time."""

    id: str
    before: str
    after: str


class Difference(msgspec.Struct):
    """Differences between two runs."""

    first: Side
    second: Side
    notes: list[str]
    """Reasons why the runs are less alike than one would think."""
    new: list[CaseChange]
    """Violated now, and not before."""
    changed: list[CaseChange]
    """Violated both times, by another signature now."""
    gone: list[CaseChange]
    """Violated before; it holds now."""
    undecided: list[CaseChange]
    """Held or violated before, and undecided now."""
    decided: list[CaseChange]
    """Undecided before; it holds now."""
    verdicts: list[VerdictChange]
    weaker: list[StrengthLoss]
    still: int
    """Number of violations that are the same in both."""
    came: list[Row] = []
    """Findings that the second run shows, and the first had looked for and not shown."""
    fixed: list[Row] = []
    """Findings that the first run shows, and whose cases all hold in the second."""
    races: list[str] = []
    """Cases that ended otherwise by chance: the intervals of their rates overlap."""
    repeated: list[CaseChange] = []
    """Cases that ended otherwise although the same judge asked the same of the same code: what they
    show depends on a race, or on the machine."""

    def status(self) -> int:
        """1: something new is violated; 3: something that held is undecided now; else 0."""
        if self.new or self.changed:
            return 1
        return 3 if any(change.before == "held" for change in self.undecided) else 0


def diff(first: StoredRun, second: StoredRun) -> Difference:
    """Compare two runs; violations are the same if their signatures are."""
    found = Difference(
        _side(first), _side(second), list(_notes(first, second)), [], [], [], [], [], [], [], 0
    )
    before = {case.id: case for case in first.cases()}
    after = {case.id: case for case in second.cases()}
    for id in dict.fromkeys([*after, *before]):
        _case(found, before.get(id), after.get(id))
    same = first.repeats(second)
    if same:
        _set_aside(found, {id for id in after if _is_told_by_rates(before.get(id), after[id])})
    found.weaker = [
        StrengthLoss(id, before[id].strength, case.strength)
        for id, case in after.items()
        if id in before and not same and _is_weaker(before[id], case)
    ]
    for id in dict.fromkeys([*second.invariants, *first.invariants]):
        was, now = (
            run.invariants[id].verdict if id in run.invariants else _NOT_RUN
            for run in (first, second)
        )
        chance = [*found.races, *(change.id for change in found.repeated)]
        if was != now and not any(case.split("/")[0] == id for case in chance):
            found.verdicts.append(VerdictChange(id, was, now))
    found.came = [] if same else list(_came(first, second, found.races))
    held = {case.id for case in second.cases() if case.outcome == "held"}
    found.fixed = [
        row
        for row in first.findings
        if second.schema > 1
        and not same
        and row.id not in _ids(second)
        and held.issuperset(row.cases)
    ]
    return found


def _set_aside(found: Difference, by_rates: set[str]) -> None:
    """Set aside, of two runs of the same code, the differences that are no change of it.

    All are set aside but cases that only one run was asked, and those that rates decide.
    """
    for changes in (found.new, found.changed, found.gone, found.undecided, found.decided):
        kept = [c for c in changes if _NOT_RUN in (c.before, c.after) or c.id in by_rates]
        found.repeated += [change for change in changes if change not in kept]
        changes[:] = kept


def _is_told_by_rates(before: StoredCase | None, after: StoredCase) -> bool:
    decided = before is not None and {before.outcome, after.outcome} <= {"held", "violated"}
    return decided and bool(after.chances or (before and before.chances))


def _came(first: StoredRun, second: StoredRun, races: Sequence[str]) -> Iterator[Row]:
    """Findings of which a case ran before as well, and showed another thing or nothing."""
    asked = {case.id for case in first.cases()} - {*races}
    whole = first.schema > 1 and not unattributed(first.cases())
    for row in second.findings if whole else ():
        if row.id not in _ids(first) and asked.intersection(row.cases):
            yield row


def _ids(run: StoredRun) -> set[str]:
    return {row.id for row in run.findings}


def _case(found: Difference, before: StoredCase | None, after: StoredCase | None) -> None:
    was, now = _word(before), _word(after)
    told = after or before
    if told is None:
        return
    if _is_race(before, after):
        found.races.append(told.id)
        return
    change = CaseChange(told.id, was, now, told.cause, told.signature, replay=told.replay or "")
    violated_before = before is not None and before.outcome == "violated"
    if after is not None and after.outcome == "violated":
        if before is None or not violated_before:
            found.new.append(change)
        elif before.signatures.isdisjoint(after.signatures):
            change.was = before.signature
            found.changed.append(change)
        else:
            found.still += 1
    elif now == "held":
        if violated_before and before is not None:
            change.cause, change.signature = before.cause, before.signature
            found.gone.append(change)
        elif was != "held":
            found.decided.append(change)
    elif violated_before or was == "held":
        found.undecided.append(change)


def by_chance(before: StoredCase, after: StoredCase) -> bool:
    """Return whether one run alone violated a case, and its rates do not tell the runs apart."""
    return {before.outcome, after.outcome} == {"held", "violated"} and _overlap(before, after)


def _is_race(before: StoredCase | None, after: StoredCase | None) -> bool:
    """Return whether a race broke the promise in one run alone, or in two ways, about as often."""
    if before is None or after is None:
        return False
    both = before.outcome == after.outcome == "violated"
    otherwise = both and before.signatures.isdisjoint(after.signatures)
    return by_chance(before, after) or (otherwise and _overlap(before, after))


def _overlap(before: StoredCase, after: StoredCase) -> bool:
    """Return whether there are rates, and those of both runs may be the same."""
    one, other = before.chances, after.chances
    if not (one or other):
        return False
    for of in {*one, *other}:
        # Who was not seen to violate was given as many plays as this case takes.
        mine, theirs = one.get(of) or _never(other[of]), other.get(of) or _never(one[of])
        if mine.low > theirs.high or theirs.low > mine.high:
            return False
    return True


def _never(seen: Rate) -> Rate:
    return Rate("", seen.of, 0, seen.trials)


def _word(case: StoredCase | None) -> str:
    return _NOT_RUN if case is None else case.failure_class or "held"


def _is_weaker(before: StoredCase, after: StoredCase) -> bool:
    if before.outcome != "held" or after.outcome != "held":
        return False
    counted = before.counts | {"runs": before.runs, "struck": before.struck or 0}
    now = after.counts | {"runs": after.runs, "struck": after.struck or 0}
    return any(now.get(unit, 0) < count * _LESS for unit, count in counted.items())


def _side(run: StoredRun) -> Side:
    return Side(str(run.folder), run.target.label(), run.seed, run.device, run.full)


def _notes(first: StoredRun, second: StoredRun) -> Iterator[str]:
    if first.target.name != second.target.name:
        names = f"{first.target.label()} and {second.target.label()}"
        yield f"two targets are compared: {names}; a cause may name other functions for one bug"
    elif first.target.version != second.target.version:
        yield f"two releases are compared: {first.target.label()} and {second.target.version}"
    pairs = {
        "seeds": (first.seed, second.seed),
        "devices": (first.device, second.device),
        "extents": tuple("--full" if run.full else "not --full" for run in (first, second)),
    }
    for what, (one, other) in pairs.items():
        if one != other:
            yield f"the {what} differ: {one} and {other}"
    for run, which in ((first, "first"), (second, "second")):
        if run.schema == 1:
            yield f"the {which} run is from before findings: only cases are compared"
        elif left := unattributed(run.cases()):
            yield f"in the {which} run {counted(left, 'violations')} not attributed to a finding"
    if second.left_out:
        yield f"the second run left out {len(second.left_out)} cases: its budget was spent"
