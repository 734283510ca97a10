"""The matrix as Markdown: one page with the table, and a page for the cells of each target."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from killpoint.findings.rows import unattributed
from killpoint.matrix.change import Change
from killpoint.matrix.column import OPENING, Beside, Column, plain
from killpoint.matrix.result_row import Row
from killpoint.matrix.select_targets import LANDMARKS
from killpoint.report.matrix_table import Doubt, Link, found_in, markdown
from killpoint.report.run_folder import StoredCase, StoredRun, StoredVerdict
from killpoint.report.table import SIGN, columns


def write(file: Path, made: Sequence[Column], absent: Sequence[Row], changed: list[Change]) -> None:
    """Write the page, and beside it a folder of its name with a page for each target."""
    beside = Beside(file)
    beside.folder.mkdir(parents=True, exist_ok=True)
    for each in made:
        cells = beside.cells(each.slug)
        cells.write_text(_cells(each, cells, file), "utf-8")
    runs = [each.run for each in made]
    doubts = _doubts(made) if any(each.confirmed for each in made) else None
    table = markdown(runs, _cell_links(beside, made), doubts)
    lines = ["# The matrix", "", *_intro(made), ""]
    lines += [*_found(runs), "## Invariants", "", table.rstrip(), ""]
    lines += [*_absent(absent), *_unconfirmed(made), *_changed(changed), *_columns(made)]
    lines += _releases(made)
    file.write_text("\n".join(lines).rstrip() + "\n", "utf-8")


def _cell_links(beside: Beside, made: Sequence[Column]) -> Link:
    where = {id(each.run): _relative(beside.cells(each.slug), beside.page) for each in made}
    return lambda run, invariant: f"{where[id(run)]}#{invariant.lower()}"


def _doubts(made: Sequence[Column]) -> Doubt:
    doubted = {
        id(each.run): {case.split("/")[0] for case in each.unreproduced() if each.confirmed}
        for each in made
    }
    return lambda run, invariant: invariant in doubted[id(run)]


def _found(runs: list[StoredRun]) -> list[str]:
    """Root causes, each with the targets that have it."""
    if not (table := found_in(runs)):
        return []
    said = (
        "✗ a violation belongs to the finding; ✓ the case that shows it best holds; blank: neither."
        " `killpoint show ID` tells of one."
    )
    return ["## Findings", "", said, "", table.rstrip(), ""]


def _intro(made: Sequence[Column]) -> list[str]:
    found = [case for each in made for case in each.violations()]
    kept = sum(case.id in each.replays for each in made for case in each.violations())
    said = [f"Violated cases: {len(found)}, of which {kept} have a replay."]
    asked = [each for each in made if each.confirmed]
    if asked:
        all = sum(len(each.violations()) for each in asked)
        again = all - sum(len(each.unreproduced()) for each in asked)
        said.append(f"Reproduced by their replay, each played once more: {again} of {all}.")
    below = " [Below](#columns) is when each column was made, and by which command." if made else ""
    return [
        f"Each invariant on {len(made)} target{'s' * (len(made) != 1)}.{below}",
        "",
        "A cell leads to what it rests on: the strength of the verdict, and for each violated case"
        " the cause, the lines of the history that show it, and the scenario that plays it again"
        " (`killpoint replay FILE`).",
        "",
        *said,
    ]


def _columns(made: Sequence[Column]) -> list[str]:
    """Return the table of columns: when each was made, and by which command."""
    heads = {id(head.run): head.label for head in columns([each.run for each in made])}
    by_run = {id(each.run): each for each in made}
    lines = ["## Columns", "", "| column | made | violated | made again by |", "|---|---|--:|---|"]
    for key, label in heads.items():
        each = by_run[key]
        count = f"{len(each.violations())}"
        if left := unattributed(each.run.cases()):
            count += f" ({left} without a finding: not attributed)"
        made_on = [each.made[:10], *(f"{id} {day}" for id, day in each.row.renewed.items())]
        cells = _line(label), "; ".join(made_on), count, f"`{shlex.join(each.command())}`"
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""] if made else []


def _changed(changed: Sequence[Change]) -> list[str]:
    told = ["## From release to release", ""]
    for change in changed:
        first, *rest = change.lines()
        told += [f"- {_line(first)} {'; '.join(_line(line) for line in rest) or 'no finding'}"]
    return [*told, ""] if changed else []


def _releases(made: Sequence[Column]) -> list[str]:
    """Return the reasons for those releases that are there because the code changed with them."""
    names = [each.row.target.removeprefix("vllm==") for each in made]
    told = [f"- {name}: {LANDMARKS[name]}" for name in LANDMARKS if name in names]
    said = "What changed in the judged code with a release, or shortly before it:"
    return ["## The releases of vLLM", "", said, "", *told, ""] if told else []


def _absent(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    told = [f"- `{row.target}`: infrastructure: {_line(row.trouble)}" for row in rows]
    return ["## Not judged", "", "These could not be had, or not be judged, here:", "", *told, ""]


def _unconfirmed(made: Sequence[Column]) -> list[str]:
    told = [
        f"- `{each.row.target}` `{case}`: {_line(word)}"
        for each in made
        for case, word in each.unreproduced().items()
        if each.confirmed
    ]
    if not told:
        return []
    said = "What their replay, played once, did not show again:"
    return ["## Not reproduced", "", said, "", *told, ""]


def _cells(each: Column, page: Path, matrix: Path) -> str:
    target = each.run.target
    lines = [
        f"# {target.name} {target.version}",
        "",
        f"{OPENING}{_relative(matrix, page)}), made on {each.made[:10]};"
        f" `--target {each.row.target}`, seed {each.run.seed}, {each.run.seconds:.0f} s.",
        "",
    ]
    for note in each.run.notes:
        lines.append(f"- {_line(note)}")
    if left_out := _undecided(each.run):
        lines.append(f"- left out, for want of time: {', '.join(left_out)}")
    for id, verdict in each.run.invariants.items():
        lines += ["", f"## {id}", "", f"{SIGN[verdict.verdict]} {verdict.verdict}"]
        lines[-1] += f" ({verdict.level}): {_line(verdict.strength)}"
        lines += _cases(verdict, each, page)
    return "\n".join(lines) + "\n"


def _undecided(run: StoredRun) -> list[str]:
    """Cases that were left out and might have decided their invariant."""
    violated = {id for id, verdict in run.invariants.items() if verdict.verdict == "violated"}
    return [case for case in run.left_out if case.split("/")[0] not in violated]


def _cases(verdict: StoredVerdict, each: Column, page: Path) -> list[str]:
    lines: list[str] = []
    for case in verdict.cases:
        if case.outcome == "violated":
            lines += ["", f"### {case.id}: {case.kind}", "", f"{_line(case.cause).rstrip('.')}."]
            if whose := _whose(case):
                lines += ["", whose]
            if case.evidence:
                lines += ["", "```text", *(plain(line) for line in case.evidence), "```"]
            lines += ["", _replay(case, each, page)]
        elif case.outcome == "inconclusive":
            lines += ["", f"`{case.id}` is inconclusive: {_line(case.cause)}"]
    return lines


def _whose(case: StoredCase) -> str:
    """The findings that its violations belong to, by the kind of each."""
    told = [f"{v.kind}: `{v.finding}`, {_line(v.how)}" for v in case.violations if v.finding]
    return f"Findings: {'; '.join(dict.fromkeys(told))}." if told else ""


def _replay(case: StoredCase, each: Column, page: Path) -> str:
    file = each.replays.get(case.id)
    ending = each.endings()[case.id]
    if file is None:
        return f"{ending[0].upper()}{ending[1:]}."
    told = f"; played once more: {_line(ending)}" if each.confirmed else ""
    return f"Replay: [{file.name}]({_relative(file, page)}){told}"


def _relative(file: Path, page: Path) -> str:
    """The way from a page to a file, for a link."""
    return Path(os.path.relpath(file, page.parent)).as_posix()


def _line(text: str) -> str:
    """A text on one line in which Markdown sees no markup."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(plain(text).split()))
