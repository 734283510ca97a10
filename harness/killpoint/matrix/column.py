"""One column of a matrix, and the folder beside the page from which columns are read back.

Beside ``matrix.md`` lies ``matrix/``: ``data/SLUG.json`` is a column whole, ``replays/SLUG/`` has
the files that play its violations again, and ``SLUG.md`` is what its cells lead to. A page is made
of its columns' data alone, without the runs.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, cast

import msgspec

from killpoint.errors import BadUsage
from killpoint.matrix.replays import REPRODUCED
from killpoint.matrix.result_row import CheckOptions, Row, slug
from killpoint.report.run_folder import StoredCase, StoredRun
from killpoint.report.table import date
from killpoint.verdict import CaseViolation

NEWEST = 1
"""Newest schema of a column's data that is read here."""
OPENING = "Part of [the matrix]("
"""Beginning of the line that marks a page of cells."""


class Column(msgspec.Struct):
    """A target's run, and what became of the replays of its violations."""

    row: Row
    run: StoredRun
    """The run, as far as the page shows it; whole where it lies here."""
    replays: dict[str, Path]
    """Path of the file that replays the violation, by case."""
    confirmed: bool = False
    """True if the replays were played once more."""

    @property
    def slug(self) -> str:
        """The target's name in paths and links."""
        return slug(self.row.target)

    @property
    def made(self) -> str:
        """Time at which the column's run began."""
        return date(self.run)

    def command(self) -> list[str]:
        """The words that make it again."""
        words = ["killpoint", "matrix", "--targets", self.row.target, *self.row.asked.words()]
        return words + ["--confirm"] * self.confirmed

    def renew(self, part: StoredRun, copies: dict[str, Path], into: Path) -> None:
        """Put invariants whose cases were played once more in the place of what was there.

        Args:
            part: the run of these invariants alone.
            copies: its replays, by case; they and those of what has no finding yet lie in ``into``.
        """
        gone = {case.id for id in part.invariants for case in self._cases_of(id)}
        for violation in (each for case in part.cases() for each in case.violations):
            violation.replay = violation.replay and str(into / Path(violation.replay).name)
        nowhere = (
            into / self.run.folder.name
        )  # no run has all of it; the name says when it was begun
        merged = self.run.invariants | part.invariants
        self.run = msgspec.structs.replace(self.run, invariants=merged, folder=nowhere)
        self.replays = {id: file for id, file in self.replays.items() if id not in gone} | copies
        self.row.replayed = {k: word for k, word in self.row.replayed.items() if k not in gone}
        self.row.renewed |= dict.fromkeys(part.invariants, date(part)[:10])

    def _cases_of(self, invariant: str) -> list[StoredCase]:
        verdict = self.run.invariants.get(invariant)
        return verdict.cases if verdict is not None else []

    def violations(self) -> list[StoredCase]:
        """Return the violated cases, in the card's order."""
        return [case for case in self.run.cases() if case.outcome == "violated"]

    def endings(self) -> dict[str, str]:
        """Return how the replay of each violation ended, those that have none included."""
        return {
            case.id: self.row.replayed.get(case.id, "not replayed")
            if case.id in self.replays
            else "no replay was kept"
            for case in self.violations()
        }

    def unreproduced(self) -> dict[str, str]:
        """Violations that their replay did not show again, and what happened instead."""
        return {case: word for case, word in self.endings().items() if word != REPRODUCED}


class _Stored(msgspec.Struct):
    """A column as its file has it."""

    schema: int
    row: Row
    confirmed: bool
    replays: dict[str, str]
    """Names of files, by case."""
    run: StoredRun


class Beside:
    """The folder beside a page."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.folder = page.with_suffix("")

    def replays(self, slug: str) -> Path:
        """The folder of a column's replays."""
        return self.folder / "replays" / slug

    def cells(self, slug: str) -> Path:
        """The page that a column's cells lead to."""
        return self.folder / f"{slug}.md"

    def data(self, slug: str) -> Path:
        """The file that a column is read back from."""
        return self.folder / "data" / f"{slug}.json"

    def keep(self, column: Column) -> None:
        """Write a column's data, at once and whole; replays that it has no use for any more go."""
        file = self.data(column.slug)
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        new.write_text(_text(column), "utf-8")
        new.replace(file)
        named = {each.name for each in column.replays.values()} | _unsettled(column.run)
        for each in self.replays(column.slug).glob("*.toml"):
            if each.name not in named:
                each.unlink()

    def column(self, target: str, asked: CheckOptions) -> Column | None:
        """The column of a target, if there is one that was asked the same.

        Raises:
            BadUsage: it cannot be read.
        """
        found = self.of(slug(target))
        same = [each for each in found if (each.row.target, each.row.asked) == (target, asked)]
        return same[0] if same else None

    def of(self, slug: str) -> list[Column]:
        """The column that has this name, whatever it was asked; or none.

        Raises:
            BadUsage: it cannot be read.
        """
        file = self.data(slug)
        return [self._read(file)] if file.is_file() else []

    def columns(self) -> list[Column]:
        """Return every column that has its data here.

        Raises:
            BadUsage: a column cannot be read.
        """
        return [self._read(file) for file in sorted(self.data("").parent.glob("*.json"))]

    def older(self) -> list[str]:
        """Columns of which there is a page of cells and no data, by their slugs.

        Such pages were made before columns had data. They hold too little to be read back.
        """
        return [
            file.stem
            for file in sorted(self.folder.glob("*.md"))
            if not self.data(file.stem).is_file() and OPENING in file.read_text("utf-8")
        ]

    def drop(self, slug: str) -> None:
        """Take a column away, with all that the page led to."""
        self.data(slug).unlink(missing_ok=True)
        self.cells(slug).unlink(missing_ok=True)
        shutil.rmtree(self.replays(slug), ignore_errors=True)

    def _read(self, file: Path) -> Column:
        try:
            schema = msgspec.json.decode(file.read_bytes(), type=dict[str, Any]).get("schema")
            if schema != NEWEST:
                words = f"schema {schema}; expected {NEWEST}, which this killpoint reads"
                raise BadUsage(f"{file}: {words}")
            stored = msgspec.json.decode(file.read_bytes(), type=_Stored)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadUsage(f"{file}: {error}; expected a column of a matrix") from error
        stored.run.folder = file.parent / stored.row.run
        where = self.replays(file.stem)
        replays = {case: where / name for case, name in stored.replays.items()}
        for violation in (each for case in stored.run.cases() for each in case.violations):
            violation.replay = violation.replay and str(where / violation.replay)
        return Column(stored.row, stored.run, replays, stored.confirmed)


_URL = re.compile(r"https?://\S*/")
"""Part of an archive's URL before its file name: the archive is known by its hash, wherever it came
from."""
_FOLDERS = "home|root|tmp|var|opt|usr|work|mnt"
_OF_THE_MACHINE = re.compile(rf"(?<![\w./])/(?:{_FOLDERS})/(?:[^\s:'\")]*/)?")
"""Folders of the machine that a column was made on. They say nothing to a reader."""


def plain(text: str) -> str:
    """A text without the folders of the machine, and without hosts."""
    return _OF_THE_MACHINE.sub("…/", _URL.sub("", text))


def _text(column: Column) -> str:
    """The file's text, a case on each line, so that a change of one is a change of one line."""
    stored = {
        "schema": NEWEST,
        "row": msgspec.to_builtins(column.row),
        "confirmed": column.confirmed,
        "replays": {case: file.name for case, file in column.replays.items()},
        "run": _run(column.run),
    }
    return _lines(stored) + "\n"


def _run(run: StoredRun) -> object:
    """Return a run as far as a page shows it, without what names the machine."""
    kept = msgspec.structs.replace(
        run,
        findings=[],
        folder=Path(),
        invariants={
            id: msgspec.structs.replace(verdict, cases=[_case(case) for case in verdict.cases])
            for id, verdict in run.invariants.items()
        },
    )
    told = msgspec.to_builtins(kept, enc_hook=str)
    del told["folder"]
    return _told(told)


def _case(case: StoredCase) -> StoredCase:
    return StoredCase(
        case.id,
        case.outcome,
        case.kind,
        case.cause,
        by_machine=case.by_machine,
        by_harness=case.by_harness,
        evidence=case.evidence if case.outcome == "violated" else [],
        level=case.level,
        violations=[_violation(each) for each in case.violations],
        unconfirmed=case.unconfirmed,
        beyond=case.beyond,
    )


def _violation(each: CaseViolation) -> CaseViolation:
    return msgspec.structs.replace(each, evidence=[], replay=_awaited(each) or None)


def _awaited(each: CaseViolation) -> str:
    """The name of the replay by which a violation is settled that has no finding yet."""
    return Path(each.replay).name if each.replay and each.finding is None else ""


def _unsettled(run: StoredRun) -> set[str]:
    return {_awaited(each) for case in run.cases() for each in case.violations}


def _told(value: object) -> object:
    """Remove what is empty and read back as such, and this machine's folders."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_told(each) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        inner = {name: _told(each) for name, each in cast("dict[str, object]", value).items()}
        return {name: each for name, each in inner.items() if not _is_default(name, each)}
    return value


_NEEDED = ("strength", "cases", "seed")
"""Fields that have no default."""


def _is_default(name: str, value: object) -> bool:
    """Return whether the value is read back where it is left out."""
    return not value and name not in _NEEDED


def _lines(value: object, deep: int = 0) -> str:
    """JSON in which a case, or whatever else lies that deep, is one line."""
    pad = " " * (deep + 1)
    if not value or deep == _DEEP or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        inner = [pad + _lines(each, deep + 1) for each in cast("list[object]", value)]
    else:
        items = cast("dict[str, object]", value).items()
        inner = [f"{pad}{json.dumps(name)}: {_lines(each, deep + 1)}" for name, each in items]
    first, last = "[]" if isinstance(value, list) else "{}"
    return f"{first}\n" + ",\n".join(inner) + f"\n{' ' * deep}{last}"


_DEEP = 5
"""Below this a value is on one line: ``run``, ``invariants``, an id, ``cases``, and then a case."""
