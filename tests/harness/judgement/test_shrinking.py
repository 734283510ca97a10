"""`check` shows a violation at once, then the smallest scenario that still shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from killpoint.cli import main
from killpoint.judgement.judge import judge
from killpoint.judgement.replay import replay
from killpoint.scenario import load
from killpoint.search.shrink.size import size_of
from killpoint.verdict import CaseOutcome

FAULTY = "mutated:r1_flags_reset_after_publication"
CASE = "R1/two-readers"


def test_what_is_shrunk_still_fails_and_holds_on_the_reference(tmp_path: Path) -> None:
    told: list[CaseOutcome] = []
    judged = judge(
        FAULTY,
        [CASE],
        folder=tmp_path,
        jobs=1,
        shrinking=40.0,
        progress=lambda outcome, _done, _total: told.append(outcome),
    )
    (outcome,) = judged.verdicts[0].cases
    assert told == [outcome]
    assert outcome.replay is not None
    small_one = outcome.replay.replace(".toml", ".shrunk.toml")
    assert outcome.shrunk == small_one, (outcome.kind, outcome.cause, outcome.shrinkage)
    whole, small = load(Path(outcome.replay)), load(Path(small_one))
    assert size_of(small) < size_of(whole)
    assert len(small.roles()) == 2
    assert replay(Path(small_one)).ending == "reproduced"
    assert replay(Path(small_one), "refengine").ending == "held"


def test_without_time_for_it_nothing_is_shrunk(tmp_path: Path) -> None:
    judged = judge(FAULTY, [CASE], folder=tmp_path, jobs=1)
    (outcome,) = judged.verdicts[0].cases
    assert (outcome.outcome, outcome.shrunk, outcome.shrinkage) == ("violated", None, "")


def test_check_names_both_replays_and_says_the_first_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", "--target", FAULTY, "--only", CASE, "--out", str(tmp_path), "--json"]
    assert main([*arguments, "--shrink", "20"]) == 1
    shown = capsys.readouterr()
    (case,) = json.loads(shown.out)["invariants"]["R1"]["cases"]
    assert Path(case["replay"]).exists()
    assert Path(case["shrunk"]).exists()
    assert f"✗ {CASE}: bad-transition" in shown.err
    assert f"killpoint replay {case['replay']}" in shown.err
    assert main([*arguments, "--shrink", "0"]) == 1
    (case,) = json.loads(capsys.readouterr().out)["invariants"]["R1"]["cases"]
    assert case["shrunk"] is None


def test_a_time_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--shrink", "long"]) == 2
    assert "expected seconds" in capsys.readouterr().err
