"""Verdicts: of a case an outcome, of an invariant a verdict with its strength."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from killpoint.invariant import Invariant, Level
from killpoint.invariants import level_of

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
_PLURAL = re.compile(r"\b([a-z]{2,}?)(ies|(?<=s)ses|xes|ches|shes|(?<!s)s)\b(?!')")
_TAIL = 0.025
"""Probability that a 95 % interval leaves out at either end."""
FailureClass = Kind | Literal["inconclusive", "unsupported", "infrastructure"]
"""Reason why a case did not hold, in a word."""
CaseWord = Literal["held", "violated", "inconclusive", "unsupported"]
VerdictWord = Literal["holds", "violated", "inconclusive", "unsupported"]


_SEARCHED = ("schedules", "orders' states")
"""Units that only searches count."""


WORST_FIRST: tuple[Kind, ...] = (
    "wrong-data",
    "lost",
    "duplicate",
    "reordered",
    "crash",
    "hang",
    "exposure",
    "no-error",
    "bad-transition",
    "starved",
    "leak",
    "growth",
    "late",
)
"""Kinds by gravity: of several violations of one case, the first of these stands for the case."""

TIMED: frozenset[Kind] = frozenset({"hang", "late", "starved", "lost", "no-error", "leak"})
"""Kinds that a machine may make which keeps processes from running: what did not come in time."""


class Violation(msgspec.Struct, frozen=True):
    """One broken promise: its kind, and the cause in one sentence."""

    kind: Kind
    cause: str
    evidence: list[str] = []
    """The few history lines that show it."""
    level: Level | None = None
    """Level of the clause that is broken, where it is another than its invariant's."""
    of: str = ""
    """Subject of the violation, where one kind has several that have nothing to do with each other:
    a leak of ``processes``, or of the ``names`` of segments, sockets and files."""


class TargetLine(msgspec.Struct, frozen=True):
    """A line of the target's own code."""

    file: str
    """Path of the file in the target's package."""
    function: str = ""
    """The qualified name of the function that it stands in; empty outside of all."""
    line: int | None = None

    def words(self) -> str:
        """Return words such as ``queue.py:16 in MessageQueue.recv``."""
        number = "" if self.line is None else f":{self.line}"
        return f"{self.file}{number}" + (f" in {self.function}" if self.function else "")


class CaseViolation(msgspec.Struct):
    """A violation that a case found, with the file that plays it again."""

    kind: Kind
    cause: str
    evidence: list[str] = []
    level: Level = "MUST"
    replay: str | None = None
    plays: int = 1
    """Number of plays of the case in which it was seen."""
    alone: list[int] = []
    """Number of plays alone that showed it again, and of all such plays; empty if it does not rest
    on time."""
    place: TargetLine | None = None
    """Place in the target's own code; None if nothing names a line of it."""
    finding: str | None = None
    """Finding it belongs to: the id of an entry of the registry, ``new``, or ``not-reproduced``;
    None: that was not asked."""
    how: str = ""
    """Reason for that attribution, in words."""
    of: str = ""
    """See :attr:`Violation.of`."""

    def is_like(self, other: CaseViolation) -> bool:
        """Return whether both are of one kind, and of one subject as far as both have it."""
        return self.kind == other.kind and (self.of == other.of or not (self.of and other.of))


class Rate(msgspec.Struct, frozen=True):
    """Rate of an effect of faults at random times, with its 95 % interval."""

    what: str
    """Effect, such as ``writer hung``."""
    of: str
    """Fault, such as ``kills of reader-0 at random times inside receive``."""
    hits: int
    trials: int

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval (Clopper-Pearson), of 1."""
        if not self.hits:
            return 0.0
        return _solved(lambda p: 1.0 - self._at_most(self.hits - 1, p) >= _TAIL)

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval, of 1."""
        if self.hits == self.trials:
            return 1.0
        return _solved(lambda p: self._at_most(self.hits, p) <= _TAIL)

    def _at_most(self, hits: int, p: float) -> float:
        """Return the probability of no more hits than these, at a rate of ``p``."""
        n, whole = self.trials, math.lgamma(self.trials + 1)
        ways = [whole - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(hits + 1)]
        rest = [k * math.log(p) + (n - k) * math.log1p(-p) for k in range(hits + 1)]
        return sum(math.exp(a + b) for a, b in zip(ways, rest, strict=True))

    def words(self) -> str:
        """Return words such as ``writer hung after 2 of 60 kills … (95 %: 0.4 … 11.5 %)``."""
        interval = f"{_percent(self.low)} … {_percent(self.high)} %"
        return f"{self.what} after {self.hits} of {self.trials} {self.of} (95 %: {interval})"


def _solved(reached: Callable[[float], bool]) -> float:
    """Return the number between 0 and 1 from which on this is true."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _percent(part: float) -> str:
    percent = part * 100
    return f"{percent:.1f}".removesuffix(".0") if percent >= 0.1 or not part else f"{percent:.1g}"


class CaseOutcome(msgspec.Struct):
    """Outcome of one named case, over all the runs it took."""

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
    """Result of shrinking, in words; empty if it was not tried."""
    evidence: list[str] = []
    level: Level | None = None
    """Level of the clause that is violated."""
    violations: list[CaseViolation] = []
    """All violations that were found, the worst first; ``kind`` and the like are the first
    one's."""
    beyond: str = ""
    """Source in which the target says that it does not promise this, and what: *beyond
    contract*."""
    unconfirmed: list[str] = []
    """Violations seen beside other plays, and not again in plays alone: they count as none."""
    runs: int = 0
    struck: int | None = None
    """Number of runs with a placed fault that reached their point and saw the fault act."""
    counts: dict[str, int] = {}
    """Parts of the strength: sizes, points, wake-ups…"""
    searched: list[str] = []
    """Extent of each search of schedules: ``all 815 schedules with ≤ 2 preemptions``."""
    measured: list[str] = []
    """Other measurements: goodput around a fault."""
    rates: list[Rate] = []
    """Rates of the effects of faults at random times."""
    seconds: float = 0.0
    crash_runs: int = 0
    """Whole plays in which a role was ended at a point."""
    crash_seconds: float = 0.0
    """Duration of those plays, from the making of the roles to the ledger and the judgement."""
    by_machine: bool = False
    """True if it is ``unsupported`` by this machine: it says nothing of the target."""
    by_harness: bool = False
    """True if it is ``inconclusive`` since the harness could not do its work: a play was not
    brought to its end, or a judge failed."""

    def add(
        self, violation: Violation, replay: str | None = None, place: TargetLine | None = None
    ) -> CaseViolation:
        """A violation of the case; the worst of all of them stands for it."""
        level = violation.level or level_of(self.invariant, violation.kind)
        told = violation.kind, violation.cause, violation.evidence, level, replay
        added = CaseViolation(*told, place=place, of=violation.of)
        self.violations.append(added)
        self.violations.sort(key=lambda v: (v.level, WORST_FIRST.index(v.kind)))
        worst = self.violations[0]
        self.outcome = "violated"
        self.kind, self.cause, self.level = worst.kind, worst.cause, worst.level
        self.evidence, self.replay = worst.evidence, worst.replay
        return added


class InvariantVerdict(msgspec.Struct):
    """The verdict of one invariant with what it rests on."""

    id: str
    level: Level
    """Level of the clause; where only one of another level is violated, that one's."""
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
        strength += f", left out: {counted(left_out, 'cases')}"
    if spared:
        strength += f", decided without {counted(spared, 'more cases')}"
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
    broken: set[Level] = {
        case.level or invariant.level for case in cases if case.outcome == "violated"
    }
    level: Level = invariant.level if invariant.level in broken or not broken else broken.pop()
    return InvariantVerdict(invariant.id, level, word, strength, list(cases))


def shortfall(invariant: Invariant, cases: Sequence[CaseOutcome]) -> str:
    """Return the evidence missing to the invariant's minimum strength; empty if none is."""
    have = _totals(cases)
    # A case that the target cannot be asked is no evidence, and none is expected of it.
    have["cases"] += sum(case.outcome == "unsupported" for case in cases)
    unasked = any(case.outcome == "unsupported" for case in cases)
    missing = [
        f"{have.get(unit, 0)} of {counted(least, unit)}"
        for unit, least in invariant.minimum.items()
        if have.get(unit, 0) < least and not (unasked and unit in _SEARCHED and not have.get(unit))
    ]
    return ", ".join(missing)


def least(invariant: Invariant) -> str:
    """The minimum strength in words, and what it is where the invariant is judged another way."""
    told, then = (
        ", ".join(counted(count, unit) for unit, count in minimum.items())
        for minimum in (invariant.minimum, invariant.then)
    )
    return f"{told}; of a {invariant.instead}: {then}" if then else told


def counted(number: int, units: str) -> str:
    """A count with its noun, such as ``1 run`` for ``counted(1, "runs")``; ``units`` is plural.

    The first noun is the one counted: ``1 process looked at``, ``1 key looked for``.
    """
    return f"{number} {_PLURAL.sub(_singular, units, count=1) if number == 1 else units}"


def counted_doing(number: int, units: str, verb: str) -> str:
    """The same with what they do: ``1 process waits``, ``2 processes wait``."""
    return f"{counted(number, units)} {verb}{'s' if number == 1 else ''}"


def _singular(noun: re.Match[str]) -> str:
    stem, ending = noun[1], noun[2]
    return stem + {"ies": "y", "s": ""}.get(ending, ending.removesuffix("es"))


def pace(case: CaseOutcome) -> str:
    """Return how fast a sweep of crashes went, in words; empty for fewer than ten."""
    if case.crash_runs < _A_SWEEP or not case.crash_seconds:
        return ""
    rate = case.crash_runs / case.crash_seconds
    return f"{case.id.split('/')[1]} {rate:.{0 if rate >= 10 else 1}f} crash runs/s"


class Evidence(Protocol):
    """Evidence that a case rests on."""

    runs: int
    struck: int | None
    counts: dict[str, int]
    searched: list[str]
    measured: list[str]
    rates: list[Rate]


def _aimed(case: Evidence) -> int:
    """Plays with a placed fault: a play that was struck, and said nothing, is no run."""
    return 0 if case.struck is None else max(case.runs, case.struck)


def case_strength(case: Evidence) -> str:
    """Return the evidence of one case, in words: ``20 runs, 18 sizes, 20 of 20 faults struck``."""
    parts = [counted(case.runs, "runs")] if case.runs else []
    parts += [counted(count, unit) for unit, count in case.counts.items() if count]
    if case.struck is not None:
        parts.append(f"{case.struck} of {_aimed(case)} faults struck")
    return ", ".join([*parts, *case.searched, *case.measured, *_rated(case)])


def _rated(case: Evidence) -> list[str]:
    return [rate.words() for rate in case.rates]


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
        parts = [counted(count, unit) for unit, count in _totals(cases).items() if count]
    told = [each for case in cases for each in (*case.searched, *case.measured, *_rated(case))]
    parts += [f"({each})" for each in dict.fromkeys(told)]
    aimed = sum(_aimed(case) for case in cases)
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
            parts.append(f"{counted(unasked, 'cases')} unsupported{whose}")
    if lacking:
        parts.append("target lacks " + ", ".join(lacking))
    return ", ".join(parts) or "nothing ran"
