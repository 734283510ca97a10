"""Columns as data: read back they say what they said, and nothing of the machine."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from stored_rows import ASKED, CASE, stored

from killpoint.cli import command_line
from killpoint.errors import BadUsage
from killpoint.matrix import markdown
from killpoint.matrix.column import Beside, Column
from killpoint.matrix.replays import copy
from killpoint.report.run_folder import StoredCase, StoredVerdict
from killpoint.report.table import date
from killpoint.verdict import CaseViolation, TargetLine


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    return Beside(tmp_path / "matrix.md")


@pytest.fixture
def column(tmp_path: Path, beside: Beside) -> Column:
    """A column with all that a page tells of."""
    place, row = stored(tmp_path / "runs")
    run = place.run(row)
    row.replayed = {CASE: "reproduced"}
    (case,) = run.cases()
    place_ = TargetLine("v1/q.py", "Queue.recv", 7)
    case.violations = [
        CaseViolation("hang", "it hangs", place=place_, finding="deaf-reader", how="it is ended"),
        CaseViolation("late", "it is late", level="SHOULD", alone=[1, 2]),
    ]
    case.counts, case.unconfirmed = {"plays": 3}, ["late: (in none of 3 alone)"]
    held = StoredCase("Q1/one", "held")
    run.invariants["Q1"] = StoredVerdict("MUST", "holds", "", [held])
    run.invariants["K1"] = StoredVerdict("MUST", "unsupported", "target lacks pipes", [])
    run.notes, run.left_out = ["from https://index/x/vllm.tar.gz"], ["Q2/two"]
    return Column(row, run, copy(run, beside.replays(place.slug)), confirmed=True)


def _page(file: Path, column: Column) -> tuple[str, str]:
    markdown.write(file, [column], [], [])
    return file.read_text("utf-8"), Beside(file).cells(column.slug).read_text("utf-8")


def test_a_column_that_is_read_back_makes_the_same_page(beside: Beside, column: Column):
    beside.keep(column)
    whole = _page(beside.page, column)
    (read,) = beside.columns()
    assert _page(beside.page, read) == whole
    assert read.made == column.made == date(column.run)
    assert read.replays == column.replays
    assert read.replays[CASE].read_text() == "found"
    beside.keep(read)
    assert beside.columns() == [read]


def test_its_data_is_small_and_names_nothing_of_the_machine(
    tmp_path: Path, beside: Beside, column: Column
):
    beside.keep(column)
    text = beside.data(column.slug).read_text("utf-8")
    assert str(tmp_path) not in text
    assert "https:" not in text
    assert "elsewhere" not in text
    (line,) = [line for line in text.splitlines() if '"id": "Q1/one"' in line]
    assert line.strip() == '{"id": "Q1/one", "outcome": "held"}'


def test_it_says_how_it_is_made_again(column: Column):
    column.row.asked = msgspec.structs.replace(ASKED, first=True, full=True, seed=3)
    words = column.command()
    assert words[:4] == ["killpoint", "matrix", "--targets", "vllm==0.26.0"]
    assert {"--first", "--full", "--confirm"} < {*words}
    options = command_line().parse_args(words[1:])
    assert (options.only, options.seed, options.budget) == ([CASE], 3, 5.0)


def test_a_column_is_that_of_who_asks_the_same(beside: Beside, column: Column):
    beside.keep(column)
    assert beside.column("vllm==0.26.0", ASKED) is not None
    assert beside.column("vllm==0.26.0", msgspec.structs.replace(ASKED, seed=1)) is None
    assert beside.column("vllm==0.27.0", ASKED) is None


def test_data_that_cannot_be_read_is_told(beside: Beside, column: Column):
    beside.keep(column)
    file = beside.data(column.slug)
    whole = file.read_text("utf-8")
    file.write_text(whole.replace('"schema": 1', '"schema": 9', 1), "utf-8")
    with pytest.raises(BadUsage, match="schema 9"):
        beside.columns()
    file.write_text(whole[:-9], "utf-8")
    with pytest.raises(BadUsage, match=r"vllm-0\.26\.0\.json.*expected a column"):
        beside.columns()


def test_a_column_that_is_dropped_leaves_nothing(beside: Beside, column: Column):
    beside.keep(column)
    _page(beside.page, column)
    other = beside.folder / "notes.md"
    other.write_text("mine")
    assert beside.older() == []
    beside.data(column.slug).unlink()
    assert beside.older() == [column.slug]
    beside.drop(column.slug)
    left = [path for path in beside.folder.rglob("*") if path.is_file()]
    assert left == [other]
