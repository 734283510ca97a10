"""A run's folder read back: what ``verdict.json`` said, and where its plays and replays lie."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from killpoint.errors import BadUsage
from killpoint.findings.rows import Row
from killpoint.invariant import Level
from killpoint.signature import signature
from killpoint.verdict import (
    CaseViolation,
    CaseWord,
    FailureClass,
    Kind,
    Rate,
    VerdictWord,
    case_strength,
    failure_class,
)

NEWEST = 2
"""Newest schema of ``verdict.json`` that is read here."""
_ALONE, _PLAYS_ALONE = "plays alone", 3
"""Name and largest number of the plays that confirm a violation which rests on time."""


class StoredCase(msgspec.Struct):
    """One case of a run, as ``verdict.json`` has it."""

    id: str
    outcome: CaseWord
    kind: Kind | None = None
    cause: str = ""
    replay: str | None = None
    """File that plays it again; relative to the folder that the run was begun in."""
    by_machine: bool = False
    by_harness: bool = False
    evidence: list[str] = []
    shrunk: str | None = None
    shrinkage: str = ""
    level: Level | None = None
    violations: list[CaseViolation] = []
    """All violations; empty in runs that were stored before cases had more than one."""
    unconfirmed: list[str] = []
    beyond: str = ""
    runs: int = 0
    struck: int | None = None
    counts: dict[str, int] = {}
    searched: list[str] = []
    measured: list[str] = []
    rates: list[Rate] = []
    seconds: float = 0.0

    @property
    def invariant(self) -> str:
        """The invariant that it tests."""
        return self.id.split("/")[0]

    @property
    def failure_class(self) -> FailureClass | None:
        """Reason why the case did not hold, in a word."""
        return failure_class(self.outcome, self.kind, by_harness=self.by_harness)

    @property
    def signatures(self) -> set[str]:
        """Signatures of all its violations; in runs that stored one alone, of that one."""
        told = {signature(self.id, v.kind, v.cause) for v in self.violations}
        return told or ({self.signature} - {""})

    @property
    def chances(self) -> dict[str, Rate]:
        """Rates of what depends on a race, by what was done: violations, of how many plays.

        Such are faults at random times, and a violation that not every play alone showed again.
        """
        found = {rate.of: Rate("", rate.of, 0, rate.trials) for rate in self.rates}
        for rate in self.rates:
            found[rate.of] = Rate("", rate.of, found[rate.of].hits + rate.hits, rate.trials)
        for v in self.violations:
            if v.alone and v.alone[1] > 1:
                found[_ALONE] = Rate("", _ALONE, *v.alone)
        for _ in self.unconfirmed:
            found.setdefault(_ALONE, Rate("", _ALONE, 0, _PLAYS_ALONE))
        return found

    @property
    def strength(self) -> str:
        """Amount of evidence that the case gave, in words."""
        return case_strength(self)

    @property
    def signature(self) -> str:
        """Signature of its violation; empty if there is none."""
        if self.outcome != "violated":
            return ""
        return signature(self.id, self.kind or "", self.cause)


class StoredVerdict(msgspec.Struct):
    """One invariant of a run."""

    level: Literal["MUST", "SHOULD"]
    verdict: VerdictWord
    strength: str
    cases: list[StoredCase]


class StoredTarget(msgspec.Struct):
    """Target that was judged."""

    name: str
    version: str
    code: str = ""
    """Digest of the target's own files and its spec; empty if the files were not known, or the run
    is older than the digest."""

    def label(self) -> str:
        """Name and version, in a phrase."""
        return f"{self.name} {self.version}"


class StoredRun(msgspec.Struct):
    """A run of ``check``, from its folder."""

    target: StoredTarget
    seed: int
    device: str
    invariants: dict[str, StoredVerdict]
    notes: list[str] = []
    full: bool = False
    seconds: float = 0.0
    left_out: list[str] = []
    schema: int = 1
    """1: from before there were findings in it; its violations have neither place nor finding."""
    findings: list[Row] = []
    """Findings that its violations belong to, the worst impact first, as known at the time."""
    depth: str = "line"
    """Depth of the sweeps: how fine their points were."""
    judge: str = ""
    """Digest of the judge's code; empty if the run is older than the digest."""
    folder: Path = Path()
    """Folder of the run; set by :func:`read`, never stored."""

    def repeats(self, other: StoredRun) -> bool:
        """Return whether both asked the same of the same code: no difference is a change of it."""
        if not (self.target.code and self.judge):
            return False
        mine, theirs = (
            (run.target, run.judge, run.seed, run.device, run.depth, run.full)
            for run in (self, other)
        )
        return mine == theirs

    def cases(self) -> list[StoredCase]:
        """Return every case of every invariant, in the card's order."""
        return [case for verdict in self.invariants.values() for case in verdict.cases]


def read(run: Path) -> StoredRun:
    """The run in a folder, or of a ``verdict.json``.

    Raises:
        BadUsage: there is none, or it is damaged; file, place, what was expected.
    """
    file = run / "verdict.json" if run.is_dir() else run
    try:
        stored = msgspec.json.decode(file.read_bytes(), type=StoredRun)
    except OSError as error:
        raise BadUsage(f"{file}: {error.strerror}; expected the folder of a run") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadUsage(f"{file}: {error}; expected verdict.json of a run") from error
    if stored.schema > NEWEST:
        words = f"schema {stored.schema} is newer than this killpoint; expected at most {NEWEST}"
        raise BadUsage(f"{file}: {words}")
    stored.folder = file.parent
    return stored


def anchored(run: StoredRun) -> StoredRun:
    """The run with its violations' replays where they lie now, if its folder was moved since."""
    for case in run.cases():
        for violation in case.violations:
            if violation.replay is not None and not Path(violation.replay).is_file():
                here = run.folder / "replays" / Path(violation.replay).name
                violation.replay = str(here) if here.is_file() else violation.replay
    return run
