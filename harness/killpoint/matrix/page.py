"""The matrix as Markdown: one page with the table, and a page for the cells of each target."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from killpoint.matrix.choice import LANDMARKS
from killpoint.matrix.replays import REPRODUCED
from killpoint.matrix.row import Row, slug
from killpoint.report.columns import SIGN
from killpoint.report.matrix_table import Doubt, Link, found_in, markdown
from killpoint.report.stored import StoredCase, StoredRun, StoredVerdict


class Judged(msgspec.Struct):
    """A row with its run, and where the replays of its violations were copied to."""

    row: Row
    run: StoredRun
    replays: dict[str, Path]

    def violations(self) -> list[StoredCase]:
        """Its violated cases, in the card's order."""
        return [case for case in self.run.cases() if case.outcome == "violated"]

    def endings(self) -> dict[str, str]:
        """How the replay of each violation ended, those that have none included."""
        return {
            case.id: self.row.replayed.get(case.id, "not replayed")
            if case.id in self.replays
            else "no replay was kept"
            for case in self.violations()
        }

    def unreproduced(self) -> dict[str, str]:
        """Violations that their replay did not show again, and what happened instead."""
        return {case: word for case, word in self.endings().items() if word != REPRODUCED}


class Head(msgspec.Struct):
    """What the page says before its table."""

    command: str
    """That makes the page again."""
    date: str
    confirmed: bool
    """Whether the replays were played again."""


def write(file: Path, head: Head, judged: list[Judged], absent: list[Row]) -> None:
    """Write the page, and beside it a folder of its name with a page for each target."""
    file.with_suffix("").mkdir(parents=True, exist_ok=True)
    for each in judged:
        cells = _cell_page(file, each)
        cells.write_text(_cells(each, cells, file, head), "utf-8")
    runs = [each.run for each in judged]
    table = markdown(runs, _cell_links(file, judged), _doubts(judged) if head.confirmed else None)
    lines = ["# The matrix", "", *_intro(head, judged), ""]
    lines += [*_found(runs), "## Invariants", "", table.rstrip(), ""]
    lines += _absent(absent) + _unconfirmed(head, judged) + _releases(judged)
    file.write_text("\n".join(lines).rstrip() + "\n", "utf-8")


def _cell_links(file: Path, judged: list[Judged]) -> Link:
    where = {id(each.run): _relative(_cell_page(file, each), file) for each in judged}
    return lambda run, invariant: f"{where[id(run)]}#{invariant.lower()}"


def _doubts(judged: list[Judged]) -> Doubt:
    doubted = {
        id(each.run): {case.split("/")[0] for case in each.unreproduced()} for each in judged
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


def _cell_page(file: Path, each: Judged) -> Path:
    return file.with_suffix("") / f"{slug(each.row.target)}.md"


def _intro(head: Head, judged: list[Judged]) -> list[str]:
    found = [case for each in judged for case in each.violations()]
    kept = sum(case.id in each.replays for each in judged for case in each.violations())
    again = len(found) - sum(len(each.unreproduced()) for each in judged)
    said = [
        f"Violated cases: {len(found)}, of which {kept} have a replay.",
    ]
    if head.confirmed:
        said.append(
            f"Reproduced by their replay, each played once more after all targets had been judged:"
            f" {again} of {len(found)}."
        )
    return [
        f"Each invariant on {len(judged)} target{'s' * (len(judged) != 1)}. This page and those it"
        f" leads to were made on {head.date} by",
        "",
        "<!-- not run: it takes an hour or more -->",
        "```console",
        f"$ {head.command}",
        "```",
        "",
        "A cell leads to what it rests on: the strength of the verdict, and for each violated case"
        " the cause, the lines of the history that show it, and the scenario that plays it again"
        " (`killpoint replay FILE`).",
        "",
        *said,
    ]


def _releases(judged: list[Judged]) -> list[str]:
    """Why these releases, for those that are there because the code changed with them."""
    names = [each.row.target.removeprefix("vllm==") for each in judged]
    told = [f"- {name}: {LANDMARKS[name]}" for name in names if name in LANDMARKS]
    said = "What changed in the judged code with a release, or shortly before it:"
    return ["## The releases of vLLM", "", said, "", *told, ""] if told else []


def _absent(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    told = [f"- `{row.target}`: infrastructure: {_line(row.trouble)}" for row in rows]
    return ["## Not judged", "", "These could not be had, or not be judged, here:", "", *told, ""]


def _unconfirmed(head: Head, judged: list[Judged]) -> list[str]:
    told = [
        f"- `{each.row.target}` `{case}`: {_line(word)}"
        for each in judged
        for case, word in each.unreproduced().items()
    ]
    if not (head.confirmed and told):
        return []
    said = "What their replay, played once, did not show again:"
    return ["## Not reproduced", "", said, "", *told, ""]


def _cells(each: Judged, page: Path, matrix: Path, head: Head) -> str:
    target = each.run.target
    lines = [
        f"# {target.name} {target.version}",
        "",
        f"Part of [the matrix]({_relative(matrix, page)}) of {head.date};"
        f" `--target {each.row.target}`, seed {each.run.seed}, {each.run.seconds:.0f} s.",
        "",
    ]
    for note in each.run.notes:
        lines.append(f"- {_line(_URL.sub('', note))}")
    if left_out := _undecided(each.run):
        lines.append(f"- left out, for want of time: {', '.join(left_out)}")
    for id, verdict in each.run.invariants.items():
        lines += ["", f"## {id}", "", f"{SIGN[verdict.verdict]} {verdict.verdict}"]
        lines[-1] += f" ({verdict.level}): {_line(verdict.strength)}"
        lines += _cases(verdict, each, page, head)
    return "\n".join(lines) + "\n"


def _undecided(run: StoredRun) -> list[str]:
    """Cases that were left out and might have decided their invariant."""
    violated = {id for id, verdict in run.invariants.items() if verdict.verdict == "violated"}
    return [case for case in run.left_out if case.split("/")[0] not in violated]


def _cases(verdict: StoredVerdict, each: Judged, page: Path, head: Head) -> list[str]:
    lines: list[str] = []
    for case in verdict.cases:
        if case.outcome == "violated":
            lines += ["", f"### {case.id}: {case.kind}", "", f"{_line(case.cause).rstrip('.')}."]
            if case.evidence:
                lines += ["", "```text", *(_plain(line) for line in case.evidence), "```"]
            lines += ["", _replay(case, each, page, head)]
        elif case.outcome == "inconclusive":
            lines += ["", f"`{case.id}` is inconclusive: {_line(case.cause)}"]
    return lines


def _replay(case: StoredCase, each: Judged, page: Path, head: Head) -> str:
    file = each.replays.get(case.id)
    ending = each.endings()[case.id]
    if file is None:
        return f"{ending[0].upper()}{ending[1:]}."
    told = f"; played once more: {_line(ending)}" if head.confirmed else ""
    return f"Replay: [{file.name}]({_relative(file, page)}){told}"


def _relative(file: Path, page: Path) -> str:
    """The way from a page to a file, for a link."""
    return Path(os.path.relpath(file, page.parent)).as_posix()


_URL = re.compile(r"https?://\S*/")
"""All but the file's name: an archive is told by its hash, wherever it came from."""
_FOLDERS = "home|root|tmp|var|opt|usr|work|mnt"
_OF_THE_MACHINE = re.compile(rf"(?<![\w./])/(?:{_FOLDERS})/(?:[^\s:'\")]*/)?")
"""Folders of the machine that the page was made on. They say nothing to a reader."""


def _plain(text: str) -> str:
    return _OF_THE_MACHINE.sub("…/", text)


def _line(text: str) -> str:
    """A text on one line in which Markdown sees no markup."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(_plain(text).split()))
