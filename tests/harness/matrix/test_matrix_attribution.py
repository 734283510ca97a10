"""Whose each violation of a row is: asked after its run, and kept one by one."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from stored_rows import ASKED, stored

from killpoint.findings import attribution
from killpoint.findings.attribution import Attribution
from killpoint.matrix.attribution import attribute
from killpoint.matrix.column import Beside, Column
from killpoint.matrix.replays import copy
from killpoint.matrix.result_row import Row
from killpoint.report.run_folder import read
from killpoint.verdict import CaseViolation


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with three violations, none of them attributed; it was begun in another folder."""
    place, row = stored(tmp_path, replay="[scenario]")
    folder = place.folder / row.run
    file = folder / "verdict.json"
    told = json.loads(file.read_text())
    (case,) = told["invariants"]["R7"]["cases"]
    case["violations"] = [
        {"kind": kind, "cause": f"{kind} it is", "replay": "elsewhere/replays/R7.toml"}
        for kind in ("hang", "late", "lost")
    ]
    file.write_text(json.dumps(told))
    return folder


@pytest.fixture
def settles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The replay of each violation that was asked for; the second one is interrupted once."""
    asked: list[str] = []

    def settled(_self: Attribution, _case: str, violation: CaseViolation) -> tuple[str, str]:
        assert Path(str(violation.replay)).is_file()
        asked.append(violation.kind)
        if asked == ["hang", "late"]:
            raise KeyboardInterrupt
        return "poisoned-slot", "its switch-off ends it"

    attribution.resolve("vllm==0.26.0")  # its files are in the cache from now on
    monkeypatch.setattr(attribution, "resolve", str)
    monkeypatch.setattr(Attribution, "_settled", settled)
    return asked


def _whose(run: Path) -> list[Any]:
    return [v.finding for case in read(run).cases() for v in case.violations]


def test_what_was_settled_before_an_interrupt_is_kept_and_not_asked_again(
    run: Path, settles: list[str]
) -> None:
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        attribute("vllm==0.26.0", read(run), 1, told.append)
    assert _whose(run)[0] == "poisoned-slot"
    assert None in _whose(run)
    attribute("vllm==0.26.0", read(run), 1, told.append)
    assert _whose(run) == ["poisoned-slot"] * 3
    assert settles.count("hang") == 1
    assert [row.id for row in read(run).findings] == ["poisoned-slot"]
    before = len(settles)
    attribute("vllm==0.26.0", read(run), 1, told.append)
    assert len(settles) == before


def test_a_target_without_a_registry_takes_nothing_from_the_matrix(run: Path) -> None:
    attribute("nobodys:Own", read(run), 1, lambda _: None)
    assert _whose(run) == ["new"] * 3


def test_a_target_that_cannot_be_had_now_is_told(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: str) -> str:
        raise OSError("no route")

    monkeypatch.setattr(attribution, "resolve", gone)
    told: list[str] = []
    attribute("vllm==0.26.0", read(run), 1, told.append)
    assert told == ["vllm==0.26.0: not attributed: no route"]
    assert _whose(run) == [None] * 3


def test_a_column_is_attributed_where_there_is_nothing_but_its_data(
    run: Path, tmp_path: Path, settles: list[str]
) -> None:
    beside, whole = Beside(tmp_path / "page.md"), read(run)
    row = Row("vllm==0.26.0", ASKED, run=run.name)
    files = beside.replays("vllm-0.26.0")
    beside.keep(Column(row, whole, copy(whole, files)))
    shutil.rmtree(run)

    def again() -> None:
        (column,) = beside.columns()
        keep = partial(beside.keep, column)
        attribute("vllm==0.26.0", column.run, 1, lambda _: None, keep)

    with pytest.raises(KeyboardInterrupt):
        again()
    again()
    assert settles.count("hang") == 1
    (column,) = beside.columns()
    violations = [each for case in column.run.cases() for each in case.violations]
    assert [each.finding for each in violations] == ["poisoned-slot"] * 3
    assert [each.replay for each in violations] == [None] * 3
    assert '"replay":' not in beside.data("vllm-0.26.0").read_text()


def test_of_replays_those_stay_that_somebody_needs(run: Path, tmp_path: Path) -> None:
    beside, whole = Beside(tmp_path / "page.md"), read(run)
    (case,) = whole.cases()
    for violation in case.violations[1:]:
        violation.replay = f"elsewhere/replays/R7-{violation.kind}.toml"
        (run / "replays" / f"R7-{violation.kind}.toml").write_text(violation.kind)
    column = Column(Row("vllm==0.26.0", ASKED, run=run.name), whole, {})
    files = beside.replays(column.slug)
    column.replays = copy(whole, files)
    assert {file.name for file in files.iterdir()} == {"R7.toml", "R7-late.toml", "R7-lost.toml"}
    case.violations[1].finding = "poisoned-slot"
    beside.keep(column)
    assert {file.name for file in files.iterdir()} == {"R7.toml", "R7-lost.toml"}
    (back,) = beside.columns()
    assert Path(str(back.run.cases()[0].violations[2].replay)).read_text() == "lost"
