"""What came out: of a case an outcome, of an invariant a verdict with its strength."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from killpoint.invariants import Invariant

Kind = Literal[
    "wrong-data",
    "lost",
    "duplicate",
    "reordered",
    "hang",
    "late",
    "starved",
    "crash",
    "leak",
    "growth",
    "exposure",
    "bad-transition",
    "no-error",
]
_A_SWEEP = 10
FailureClass = Kind | Literal["inconclusive", "unsupported", "infrastructure"]
"""Why a case did not hold, in a word."""
CaseWord = Literal["held", "violated", "inconclusive", "unsupported"]
VerdictWord = Literal["holds", "violated", "inconclusive", "unsupported"]


_SEARCHED = ("schedules", "orders' states")
"""What searches count, and no other cases."""


class Violation(msgspec.Struct, frozen=True):
    """One broken promise: of which kind, and the cause in one sentence."""

    kind: Kind
    cause: str
    evidence: list[str] = []
    """The few history lines that show it."""


class CaseOutcome(msgspec.Struct):
    """How one named case ended, over all the runs it took."""

    id: str
    invariant: str
    outcome: CaseWord
    kind: Kind | None = None
    cause: str = ""
    replay: str | None = None
    """File that plays the violating scenario again."""
    shrunk: str | None = None
    """File of the smallest scenario found that violates in the same way."""
    shrinkage: str = ""
    """What shrinking came to, in words; empty if it was not tried."""
    evidence: list[str] = []
    runs: int = 0
    struck: int | None = None
    """Of the runs with a placed fault, how many reached their point and saw the fault act."""
    counts: dict[str, int] = {}
    """What the strength is made of: sizes, points, wake-ups…"""
    searched: list[str] = []
    """How far each search of schedules came: ``all 815 schedules with ≤ 2 preemptions``."""
    measured: list[str] = []
    """What was measured besides: goodput around a fault."""
    seconds: float = 0.0
    crash_runs: int = 0
    """Whole plays in which a role was ended at a point."""
    crash_seconds: float = 0.0
    """How long they took, from the making of the roles to the ledger and the judgement."""
    by_machine: bool = False
    """Whether it is ``unsupported`` by this machine: it says nothing of the target."""
    by_harness: bool = False
    """Whether it is ``inconclusive`` since the harness could not do its work: a play was not
    brought to its end, or a judge failed."""


class InvariantVerdict(msgspec.Struct):
    """The verdict of one invariant with what it rests on."""

    id: str
    level: Literal["MUST", "SHOULD"]
    verdict: VerdictWord
    strength: str
    cases: list[CaseOutcome]


def failure_class(outcome: CaseWord, kind: Kind | None, *, by_harness: bool) -> FailureClass | None:
    """A violation's kind; ``infrastructure`` if the harness failed, not the target; None: held."""
    if outcome == "held":
        return None
    if kind is not None:
        return kind
    if outcome == "unsupported":
        return "unsupported"
    return "infrastructure" if by_harness else "inconclusive"


def combine(
    invariant: Invariant,
    cases: Sequence[CaseOutcome],
    lacking: Sequence[str],
    *,
    whole: bool = True,
    left_out: int = 0,
    spared: int = 0,
) -> InvariantVerdict:
    """The verdict of an invariant from the outcomes of its cases.

    Args:
        cases: outcomes of the cases that were asked for.
        lacking: capabilities that the invariant needs and the target has not.
        whole: whether every case of the invariant was asked for. A part is judged by what
            that part says, and its strength says that it is a part.
        left_out: how many of the cases that were asked for did not run; with one, nothing holds.
        spared: how many were not begun since another one had violated it.
    """
    strength = _strength(invariant, cases, lacking, whole)
    if left_out:
        strength += f", left out: {left_out} case{'s' * (left_out != 1)}"
    if spared:
        strength += f", decided without {spared} more case{'s' * (spared != 1)}"
    words = {case.outcome for case in cases}
    if "violated" in words:
        word: VerdictWord = "violated"
    elif lacking or (words == {"unsupported"} and not left_out):
        word = "unsupported"
    elif (
        left_out or not cases or "inconclusive" in words or (whole and shortfall(invariant, cases))
    ):
        word = "inconclusive"
    else:
        word = "holds"
    return InvariantVerdict(invariant.id, invariant.level, word, strength, list(cases))


def shortfall(invariant: Invariant, cases: Sequence[CaseOutcome]) -> str:
    """What is missing to the invariant's minimum strength, empty if nothing is."""
    have = _totals(cases)
    # A case that the target cannot be asked is no evidence, and none is expected of it.
    have["cases"] += sum(case.outcome == "unsupported" for case in cases)
    unasked = any(case.outcome == "unsupported" for case in cases)
    missing = [
        f"{have.get(unit, 0)} of {least} {unit}"
        for unit, least in invariant.minimum.items()
        if have.get(unit, 0) < least and not (unasked and unit in _SEARCHED and not have.get(unit))
    ]
    return ", ".join(missing)


def pace(case: CaseOutcome) -> str:
    """How fast a sweep of crashes went, in words; empty for fewer than ten."""
    if case.crash_runs < _A_SWEEP or not case.crash_seconds:
        return ""
    rate = case.crash_runs / case.crash_seconds
    return f"{case.id.split('/')[1]} {rate:.{0 if rate >= 10 else 1}f} crash runs/s"


class Evidence(Protocol):
    """What a case rests on."""

    runs: int
    struck: int | None
    counts: dict[str, int]
    searched: list[str]
    measured: list[str]


def case_strength(case: Evidence) -> str:
    """How much evidence one case gave, in words: ``20 runs, 18 sizes, 20 of 20 faults struck``."""
    parts = [f"{case.runs} run{'s' * (case.runs != 1)}"] if case.runs else []
    parts += [f"{count} {unit}" for unit, count in case.counts.items() if count]
    if case.struck is not None:
        parts.append(f"{case.struck} of {case.runs} faults struck")
    return ", ".join([*parts, *case.searched, *case.measured])


def _totals(cases: Sequence[CaseOutcome]) -> dict[str, int]:
    totals: dict[str, int] = {"runs": 0, "cases": 0}
    for case in cases:
        if case.outcome in ("held", "violated"):
            totals["cases"] += 1
            totals["runs"] += case.runs
            for unit, count in case.counts.items():
                totals[unit] = totals.get(unit, 0) + count
    return totals


def _strength(
    invariant: Invariant, cases: Sequence[CaseOutcome], lacking: Sequence[str], whole: bool
) -> str:
    parts: list[str] = []
    if cases:
        parts = [f"{count} {unit}" for unit, count in _totals(cases).items() if count]
    told = [each for case in cases for each in (*case.searched, *case.measured)]
    parts += [f"({each})" for each in dict.fromkeys(told)]
    aimed = sum(case.runs for case in cases if case.struck is not None)
    if aimed:
        parts.append(f"{sum(case.struck or 0 for case in cases)} of {aimed} faults struck")
    parts += [paced for case in cases if (paced := pace(case))]
    if not whole:
        parts.append("a part of its cases")
    elif not lacking and (short := shortfall(invariant, cases)):
        parts.append(f"below minimum: {short}")
    for by, whose in ((False, ""), (True, " by this machine")):
        unasked = sum(c.outcome == "unsupported" and c.by_machine == by for c in cases)
        if unasked and not lacking:
            parts.append(f"{unasked} cases unsupported{whose}")
    if lacking:
        parts.append("target lacks " + ", ".join(lacking))
    return ", ".join(parts) or "nothing ran"
