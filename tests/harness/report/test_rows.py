"""A run's violations by finding: the worst impact first, the best exhibit of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import case, judgement, stored

from killpoint.errors import BadUsage
from killpoint.findings.registry import finding
from killpoint.findings.rows import rows, unattributed
from killpoint.report import verdict_json
from killpoint.report.run_folder import read
from killpoint.verdict import CaseOutcome, CaseViolation, TargetLine

_QUEUE = "distributed/device_communicators/shm_broadcast.py"


def _shown(id: str, whose: str | None, cause: str = "it hung", **more: Any) -> CaseOutcome:
    outcome = case(id, "violated", kind="hang", cause=cause)
    told = CaseViolation("hang", cause, replay=f"replays/{id}.toml", finding=whose, **more)
    outcome.violations.append(told)
    return outcome


def test_the_worst_impact_first_and_what_is_new_last() -> None:
    cases = [
        _shown("Q1/a", "new"),
        _shown("W5/queue-full", "deaf-writer"),
        _shown("W6/method-raises", "late-replies"),
        _shown("W8/two-fail", "late-replies"),
        _shown("Q1/b", None),
    ]
    found = [(row.id, row.impact, row.cases) for row in rows(cases)]
    assert found == [
        ("late-replies", "bites", ["W6/method-raises", "W8/two-fail"]),
        ("deaf-writer", "placed", ["W5/queue-full"]),
        ("new", "new", ["Q1/a"]),
    ]
    assert unattributed(cases) == 1


def test_the_best_exhibit_is_shown_not_the_first_violation() -> None:
    exhibit = finding("deaf-reader").exhibit
    (row,) = rows([_shown("L1/any", "deaf-reader"), _shown(exhibit, "deaf-reader")])
    assert (row.exhibit, row.replay) == (exhibit, f"replays/{exhibit}.toml")
    (row,) = rows([_shown("Q9/a", "deaf-reader", level="SHOULD"), _shown("Q2/b", "deaf-reader")])
    assert row.exhibit == "Q2/b"


def test_the_place_is_the_entrys_with_the_line_that_was_seen_there() -> None:
    elsewhere = TargetLine(_QUEUE, "MessageQueue.dequeue", 900)
    there = TargetLine(_QUEUE, "MessageQueue.recv", 1016)
    (row,) = rows([_shown("Q6/a", "deaf-reader", place=p) for p in (elsewhere, there)])
    assert row.place == there
    (row,) = rows([_shown("Q6/a", "deaf-reader", place=elsewhere)])
    assert row.place == TargetLine(_QUEUE, "MessageQueue.recv", None)
    (row,) = rows([_shown("Q6/a", "new", place=elsewhere)])
    assert (row.place, row.symptom) == (elsewhere, "it hung")


def test_verdict_json_says_its_schema_and_its_findings_and_is_read_back(tmp_path: Path) -> None:
    place = TargetLine(_QUEUE, "MessageQueue.recv", 1016)
    shown = _shown("Q6/writer-dies-after-overflow-marker", "deaf-reader", place=place)
    run = stored(tmp_path, shown)
    told = json.loads((tmp_path / "verdict.json").read_text("utf-8"))
    assert told["schema"] == 2
    (row,) = told["findings"]
    assert (row["id"], row["impact"], row["cases"]) == ("deaf-reader", "bites", [shown.id])
    assert row["place"] == {"file": _QUEUE, "function": "MessageQueue.recv", "line": 1016}
    (violation,) = told["invariants"]["Q6"]["cases"][0]["violations"]
    assert (violation["finding"], violation["place"]) == ("deaf-reader", row["place"])
    assert run.schema == 2
    assert run.findings == rows([shown])


def test_a_run_from_before_has_no_findings_and_a_newer_one_is_refused(tmp_path: Path) -> None:
    told = verdict_json.as_dict(judgement(_shown("Q1/a", "new")))
    del told["schema"], told["findings"]
    for violation in told["invariants"]["Q1"]["cases"][0]["violations"]:
        del violation["place"], violation["finding"], violation["how"]
    file = tmp_path / "verdict.json"
    file.write_text(json.dumps(told), "utf-8")
    old = read(tmp_path)
    assert (old.schema, old.findings) == (1, [])
    assert old.cases()[0].violations[0].finding is None
    file.write_text(json.dumps(told | {"schema": 3}), "utf-8")
    with pytest.raises(BadUsage, match="schema 3 is newer"):
        read(tmp_path)
