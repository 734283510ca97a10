"""Several targets: which are played, which columns stay, and an interrupt meanwhile."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from stored_rows import ASKED, stored

from killpoint.errors import BadUsage
from killpoint.matrix import replays
from killpoint.matrix import run as matrix
from killpoint.matrix.result_row import CheckOptions, ColumnFolder, Row
from killpoint.matrix.run import Plan, run
from killpoint.report.run_folder import StoredRun
from killpoint.verdict import CaseViolation

_WITHIN = 20.0


def test_an_interrupt_ends_the_replays_of_other_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    targets = ["vllm==0.25.0", "vllm==0.26.0"]
    for target in targets:
        stored(tmp_path, target)
    others, ended = threading.Event(), threading.Event()

    def confirm(row: Row, _copies: Any, _tell: Any, over: Callable[[], bool]) -> None:
        if row.target == targets[0]:
            assert others.wait(_WITHIN), "the targets were not replayed at the same time"
            raise KeyboardInterrupt
        others.set()
        if _until(over):
            ended.set()

    monkeypatch.setattr(replays, "confirm", confirm)
    plan = Plan(targets, ASKED, tmp_path, tmp_path / "m.md", confirm=True, jobs=2)
    with pytest.raises(KeyboardInterrupt):
        run(plan, lambda _: None)
    assert ended.is_set()


def _until(over: Callable[[], bool]) -> bool:
    """Whether it is over within a while."""
    tick = threading.Event()
    return any(over() or tick.wait(0.01) for _ in range(int(_WITHIN / 0.01)))


TARGETS = ["vllm==0.25.0", "vllm==0.26.0", "vllm==0.27.0"]


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """For three releases, of which what is played is made up."""

    def play(place: ColumnFolder, asked: CheckOptions, _jobs: int | None) -> Row:
        return stored(tmp_path / "runs", place.target)[1] if asked == ASKED else Row("", asked)

    monkeypatch.setattr(matrix, "play", play)
    page = tmp_path / "docs" / "m.md"
    return Plan(TARGETS, ASKED, tmp_path / "runs", page, attribution=False)


def _run(plan: Plan, **other: Any) -> list[str]:
    told: list[str] = []
    run(msgspec.structs.replace(plan, **other), told.append)
    return told


def _elsewhere(plan: Plan) -> Plan:
    """On a machine that has the page and what lies beside it, and no runs."""
    shutil.rmtree(plan.out)
    return plan


def test_invariants_of_a_column_are_played_once_more_and_the_rest_of_it_stays(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(plan)
    before = plan.markdown.read_text()
    asked: list[CheckOptions] = []

    def play(place: ColumnFolder, part: CheckOptions, _jobs: int | None) -> Row:
        asked.append(part)
        return stored(place.folder.parent, place.target, replay="anew", cause="it came four times")[
            1
        ]

    monkeypatch.setattr(matrix, "play", play)
    told = _run(_elsewhere(plan), targets=TARGETS[-1:], renew=("R7",))
    assert asked == [msgspec.structs.replace(ASKED, only=("R7",))]
    assert [line for line in told if "once more" in line] == ["1/1 vllm==0.27.0: R7 once more"]
    after = plan.markdown.read_text()
    assert "| 2026-01-02; R7 2026-01-02 |" in after
    assert after.replace("; R7 2026-01-02", "") == before
    folder = plan.markdown.with_suffix("")
    assert "it came four times" in (folder / "vllm-0.27.0.md").read_text()
    assert [f.read_text() for f in (folder / "replays" / "vllm-0.27.0").iterdir()] == ["anew"]
    # It is the column from now on, where it was made, too.
    stored(plan.out, TARGETS[-1])
    _run(plan, targets=TARGETS[-1:])
    assert plan.markdown.read_text() == after


def test_what_cannot_be_played_once_more_leaves_the_column_as_it_was(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(plan)
    before = plan.markdown.with_suffix("").joinpath("data", "vllm-0.27.0.json").read_bytes()
    trouble = Row(TARGETS[-1], ASKED, trouble="no disk")
    monkeypatch.setattr(matrix, "play", lambda *_: trouble)
    assert run(msgspec.structs.replace(plan, targets=TARGETS[-1:], renew=("R7",)), print) == 70
    after = plan.markdown.with_suffix("").joinpath("data", "vllm-0.27.0.json").read_bytes()
    assert after == before


def test_all_anew_and_some_once_more_is_not_both_asked(plan: Plan) -> None:
    with pytest.raises(BadUsage, match="expected one of them"):
        _run(plan, renew=("R7",), again=True)


def test_one_more_release_is_played_alone_and_the_other_columns_stay(plan: Plan) -> None:
    _run(plan)
    whole = plan.markdown.read_text()
    plan.markdown.write_text("")
    told = _run(_elsewhere(plan), targets=TARGETS[-1:])
    assert [line.partition(":")[0] for line in told if "playing" in line] == []
    assert "1/1 vllm==0.27.0: played before; 0 holds, 1 violated" in told[0]
    assert plan.markdown.read_text() == whole
    again = _run(plan, targets=TARGETS[-1:], again=True)
    assert "1/1 vllm==0.27.0: playing for 5 s" in again[0]
    assert plan.markdown.read_text() == whole


def test_what_was_interrupted_on_one_machine_goes_on_at_another(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = matrix.play

    def played(place: ColumnFolder, asked: CheckOptions, jobs: int | None) -> Row:
        if place.target == TARGETS[1]:
            raise KeyboardInterrupt
        return begin(place, asked, jobs)

    with monkeypatch.context() as patch:
        patch.setattr(matrix, "play", played)
        with pytest.raises(KeyboardInterrupt):
            _run(plan)
    assert not plan.markdown.exists()
    told = _run(_elsewhere(plan))
    assert [line[:3] for line in told if "playing" in line] == ["2/3", "3/3"]
    assert all(f"| vllm {name[6:]} |" in plan.markdown.read_text() for name in TARGETS)


def test_columns_are_dropped_when_it_is_asked_for(plan: Plan) -> None:
    _run(plan)
    _run(plan, targets=TARGETS[:1], drop=True)
    text = plan.markdown.read_text()
    assert ("vllm 0.25.0" in text, "vllm 0.26.0" in text) == (True, False)
    left = {path.name for path in plan.markdown.with_suffix("").rglob("*") if path.is_file()}
    assert left == {"vllm-0.25.0.md", "vllm-0.25.0.json", "R7.toml"}


def test_columns_without_data_are_not_lost_unasked(plan: Plan) -> None:
    _run(plan)
    before = plan.markdown.read_text()
    shutil.rmtree(plan.markdown.with_suffix("") / "data")
    with pytest.raises(BadUsage, match=r"vllm-0\.25\.0, vllm-0\.26\.0 there is no data"):
        _run(plan, targets=TARGETS[-1:])
    assert plan.markdown.read_text() == before
    _run(plan)
    assert plan.markdown.read_text() == before


def test_a_target_that_cannot_be_judged_now_keeps_the_column_that_it_had(plan: Plan) -> None:
    _run(plan)
    asked = msgspec.structs.replace(ASKED, seed=7)
    monkey = pytest.MonkeyPatch()
    trouble = Row(TARGETS[0], asked, trouble="no such release")
    monkey.setattr(matrix, "play", lambda *_: trouble)
    try:
        assert run(msgspec.structs.replace(plan, asked=asked), lambda _: None) == 70
    finally:
        monkey.undo()
    text = plan.markdown.read_text()
    assert "Each invariant on 3 targets" in text
    assert "infrastructure: no such release" in text


def test_it_says_what_became_of_findings_with_the_release(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    whose = {TARGETS[0]: "poisoned-slot", TARGETS[1]: "poisoned-slot", TARGETS[2]: "aliased-slot"}

    def attribute(target: str, run: StoredRun, _jobs: int, _tell: Any, _keep: Any) -> None:
        found = CaseViolation("hang", "it hangs", finding=whose[target], how="its switch-off")
        run.cases()[0].violations = [found]

    monkeypatch.setattr(matrix, "attribute", attribute)
    _run(plan, attribution=True, targets=TARGETS[:2])
    told = _run(plan, attribution=True, targets=TARGETS[2:])
    at = told.index("vllm 0.27.0 after vllm 0.26.0:")
    assert told[at + 1 : at + 3] == ["  gone (1): poisoned-slot", "  new in it (1): aliased-slot"]
    assert not any("0.26.0 after" in line for line in told)
    page = plan.markdown.read_text()
    assert "vllm 0.26.0 after vllm 0.25.0: carried over (1): poisoned-slot" in page
