"""Pages of the cells: the verdict of one invariant in one run, and its cases."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from killpoint.cases import EVERY_CASE
from killpoint.errors import BadUsage
from killpoint.findings.rows import Row, listed
from killpoint.invariants import CATALOGUE
from killpoint.report.run_folder import StoredCase, StoredRun
from killpoint.report.table import Column, date
from killpoint.scenario import load
from killpoint.search.kept_plays import stem
from killpoint.verdict import CaseWord, Kind, VerdictWord, least

_SUMMARIES = {case.id: case.summary for case in EVERY_CASE}
_NO_SMALLER = "no smaller"
_ORDER = ("violated", "inconclusive", "held", "unsupported")


class Command(msgspec.Struct, frozen=True):
    """Something to type."""

    about: str
    line: str


class CaseCell(msgspec.Struct):
    """A case on the page of its invariant."""

    id: str
    outcome: CaseWord
    kind: Kind | None
    summary: str
    cause: str
    evidence: list[str]
    facts: list[str]
    """Parts of the case's strength, a phrase each."""
    commands: list[Command]
    folder: str
    """Folder of the play's record; empty if none was kept."""
    play: str = ""
    """Name of the part of the file that holds its diagram; empty if there is none."""
    log: str = ""
    """Name of the part that holds what its processes wrote."""
    cut: str = ""
    """Text on what is not in this file, why, and where it is."""


class Cell(msgspec.Struct):
    """A verdict of a run."""

    verdict: VerdictWord
    strength: str
    cases: list[CaseCell]


class RunCells(msgspec.Struct):
    """All cells of a run, and the run's address and labels."""

    slug: str
    """The run in the address of its pages."""
    label: str
    about: str
    cells: dict[str, Cell]
    findings: list[Row] = []
    """Root causes, those that bite first; none where the registry knows nothing of the target."""

    def cases(self) -> list[CaseCell]:
        """Return every case of every cell."""
        return [case for cell in self.cells.values() for case in cell.cases]


class Clause(msgspec.Struct, frozen=True):
    """An invariant, for its pages."""

    level: str
    clause: str
    minimum: str


def clauses() -> dict[str, Clause]:
    """Return the catalogue's clause of each invariant."""
    return {
        item.id: Clause(
            item.level,
            item.clause,
            least(item),
        )
        for item in CATALOGUE
    }


def run_cells(columns: Sequence[Column]) -> list[RunCells]:
    """The cells of each column; no two share an address."""
    slugs: Counter[str] = Counter()
    found: list[RunCells] = []
    for column in columns:
        slug = re.sub(r"[^\w.=-]+", "-", column.label).strip("-") or "run"
        slugs[slug] += 1
        slug += f"-{slugs[slug]}" if slugs[slug] > 1 else ""
        found.append(_cells(column, slug))
    return found


def _cells(column: Column, slug: str) -> RunCells:
    run, target = column.run, _target(column.run)
    cells = {
        id: Cell(
            verdict.verdict,
            verdict.strength,
            sorted(
                (_case(run, case, target) for case in verdict.cases),
                key=lambda case: _ORDER.index(case.outcome),
            ),
        )
        for id, verdict in run.invariants.items()
    }
    about = f"seed {run.seed}, {run.device}, {date(run)}".rstrip(", ")
    return RunCells(slug, column.label, about, cells, listed(run.cases()))


def _case(run: StoredRun, case: StoredCase, target: str) -> CaseCell:
    folder = run.folder / "plays" / (Path(case.replay).stem if case.replay else stem(case.id))
    return CaseCell(
        case.id,
        case.outcome,
        case.kind,
        _SUMMARIES.get(case.id, ""),
        case.cause,
        case.evidence,
        _facts(case),
        _commands(run, case, target),
        str(folder) if folder.is_dir() else "",
    )


def _facts(case: StoredCase) -> list[str]:
    facts = [f"{case.runs} run{'s' * (case.runs != 1)}"] if case.runs else []
    if case.struck is not None:
        facts.append(f"the fault struck in {case.struck}")
    facts += [*case.searched, *case.measured, *(rate.words() for rate in case.rates)]
    if case.by_machine:
        facts.append("not permitted by this machine: it says nothing of the target")
    if case.shrinkage.startswith(_NO_SMALLER):
        facts.append(case.shrinkage)
    if case.seconds:
        facts.append(f"{case.seconds:.1f} s")
    return facts


def _commands(run: StoredRun, case: StoredCase, target: str) -> list[Command]:
    found: list[Command] = []
    if case.replay:
        found.append(Command("play it again", shlex.join(["killpoint", "replay", case.replay])))
    if case.shrunk and not case.shrinkage.startswith(_NO_SMALLER):
        line = shlex.join(["killpoint", "replay", case.shrunk])
        found.append(Command(f"the smallest found ({case.shrinkage or 'shrunk'})", line))
    only = case.id if case.id in _SUMMARIES else case.invariant
    words = ["killpoint", "check", "--only", only, "--seed", str(run.seed)]
    words += ["--target", target] if target else []
    words += ["--device", run.device] if run.device != "cpu" else []
    words += ["--full"] if run.full else []
    return [*found, Command("judge it again", shlex.join(words))]


def _target(run: StoredRun) -> str:
    """Return the argument of ``--target`` from the run's replays; empty if none has it."""
    for file in sorted(run.folder.glob("plays/*/scenario.toml"))[:1]:
        try:
            return load(file).target
        except BadUsage:
            return ""
    return ""
