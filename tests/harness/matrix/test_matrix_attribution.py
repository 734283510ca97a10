"""Whose each violation of a row is: asked after its run, and kept one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stored_rows import stored

from killpoint.findings import attribution
from killpoint.findings.attribution import Attribution
from killpoint.matrix.attribution import attribute
from killpoint.report.stored import read
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
