"""A stored run is judged again from its files alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from synthetic import Tape, bug, scene

from killpoint.errors import BadUsage, KillpointError
from killpoint.ledger import Ledger
from killpoint.recheck import recheck
from killpoint.scenario import dump


def _store(run: Path, tape: Tape, name: str = "R3-stream", judges: str = "R3") -> Path:
    play = run / "plays" / name
    play.mkdir(parents=True)
    lines = [msgspec.json.encode(event) + b"\n" for event in tape.events]
    (play / "writer.jsonl").write_bytes(b"".join(lines))
    (play / "scenario.toml").write_text(dump(scene(judges=judges)))
    (play / "ledger.json").write_bytes(msgspec.json.encode(Ledger()))
    return play


def test_a_record_that_held_holds_again_and_one_that_did_not_is_told(tmp_path: Path) -> None:
    _store(tmp_path, Tape().sent(0).gets(0), "R3-a")
    _store(tmp_path, Tape().sent(0).sent(1).gets(0), "R3-b")
    held, violated = recheck(tmp_path)
    assert held.outcome == "held"
    assert (violated.outcome, violated.kind) == ("violated", "lost")
    assert "message 1" in violated.cause
    assert violated.evidence


def test_a_record_that_shows_nothing_is_inconclusive(tmp_path: Path) -> None:
    _store(tmp_path, Tape())
    assert [outcome.outcome for outcome in recheck(tmp_path)] == ["inconclusive"]


def test_a_point_that_was_not_reached_is_inconclusive(tmp_path: Path) -> None:
    tape = Tape().sent(0).sent(1).gets(0).tell("director", "not-reached", target="writer")
    _store(tmp_path, tape)
    (outcome,) = recheck(tmp_path)
    assert (outcome.outcome, outcome.cause) == ("inconclusive", "its point was not reached")


def test_a_leaking_play_kept_for_l1_is_judged_by_l1(tmp_path: Path) -> None:
    play = _store(tmp_path, Tape().exits("writer"), "L1-in-R3-stream")
    (play / "ledger.json").write_bytes(msgspec.json.encode(Ledger(segments=["psm_1"])))
    (outcome,) = recheck(tmp_path)
    assert (outcome.invariant, outcome.kind) == ("L1", "leak")


def test_a_folder_without_a_run_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="expected the folder of a run"):
        recheck(tmp_path)


@bug("a role's unexpected status makes a play doubtful but a recheck held (recheck.py:36)")
def test_a_record_with_an_unexpected_status_is_not_held_again(tmp_path: Path) -> None:
    _store(tmp_path, Tape().sent(0).gets(0).exits("reader-0", code=1))
    assert [outcome.outcome for outcome in recheck(tmp_path)] == ["inconclusive"]


@bug("an invariant without a judge is a KeyError (recheck.py:43)")
def test_an_invariant_without_a_judge_is_told_in_words(tmp_path: Path) -> None:
    _store(tmp_path, Tape().sent(0).gets(0), judges="R5")
    with pytest.raises(KillpointError):
        recheck(tmp_path)


@bug("a damaged record ends in a msgspec error, not in one line (recheck.py:33)")
@pytest.mark.parametrize("name", ["ledger.json", "writer.jsonl"])
def test_a_damaged_record_is_bad_usage(tmp_path: Path, name: str) -> None:
    (_store(tmp_path, Tape().sent(0).gets(0)) / name).write_text("{odd\nodd\n")
    with pytest.raises(KillpointError):
        recheck(tmp_path)


@bug("the case is named after its folder: R3/R3-stream (recheck.py:37)")
def test_an_outcome_has_the_name_of_its_case(tmp_path: Path) -> None:
    _store(tmp_path, Tape().sent(0).gets(0))
    assert [outcome.id for outcome in recheck(tmp_path)] == ["R3/synthetic"]
