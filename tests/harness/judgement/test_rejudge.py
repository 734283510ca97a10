"""A stored run is judged again from its files alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from synthetic import Tape, scene

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding
from killpoint.errors import BadUsage
from killpoint.judgement.rejudge import rejudge_run
from killpoint.ledger import Ledger
from killpoint.scenario import Fault, dump


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
    held, violated = rejudge_run(tmp_path)
    assert held.outcome == "held"
    assert (violated.outcome, violated.kind) == ("violated", "lost")
    assert "message 1" in violated.cause
    assert violated.evidence


def test_a_record_that_shows_nothing_is_inconclusive(tmp_path: Path) -> None:
    _store(tmp_path, Tape())
    assert [outcome.outcome for outcome in rejudge_run(tmp_path)] == ["inconclusive"]


def test_a_point_that_was_not_reached_is_inconclusive(tmp_path: Path) -> None:
    tape = Tape().sent(0).sent(1).gets(0).tell("director", "not-reached", target="writer")
    _store(tmp_path, tape)
    (outcome,) = rejudge_run(tmp_path)
    assert (outcome.outcome, outcome.cause) == ("inconclusive", "its point was not reached")


def test_a_leaking_play_kept_for_l1_is_judged_by_l1(tmp_path: Path) -> None:
    play = _store(tmp_path, Tape().exits("writer"), "L1-in-R3-stream")
    (play / "ledger.json").write_bytes(msgspec.json.encode(Ledger(segments=["psm_1"])))
    (outcome,) = rejudge_run(tmp_path)
    assert (outcome.invariant, outcome.kind) == ("L1", "leak")
    assert outcome.id == "L1/in/R3/synthetic"


def test_a_folder_without_a_run_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="expected the folder of a run"):
        rejudge_run(tmp_path)


def test_a_record_with_an_unexpected_status_is_not_held_again(tmp_path: Path) -> None:
    _store(tmp_path, Tape().sent(0).gets(0).exits("reader-0", code=1))
    assert [outcome.outcome for outcome in rejudge_run(tmp_path)] == ["inconclusive"]


def test_an_invariant_without_a_judge_is_told_in_words(tmp_path: Path) -> None:
    _store(tmp_path, Tape().sent(0).gets(0), judges="R5")
    with pytest.raises(BadUsage, match="no judge for 'R5'"):
        rejudge_run(tmp_path)


@pytest.mark.parametrize("name", ["ledger.json", "writer.jsonl", "scenario.toml"])
def test_a_damaged_record_is_bad_usage(tmp_path: Path, name: str) -> None:
    (_store(tmp_path, Tape().sent(0).gets(0)) / name).write_bytes(b"{odd\n\xff\n")
    with pytest.raises(BadUsage, match=name) as caught:
        rejudge_run(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_record_of_which_a_file_is_gone_is_bad_usage(tmp_path: Path) -> None:
    (_store(tmp_path, Tape().sent(0).gets(0)) / "ledger.json").unlink()
    with pytest.raises(BadUsage, match=r"ledger\.json"):
        rejudge_run(tmp_path)


def test_a_role_that_was_told_to_exit_may_have_done_so(tmp_path: Path) -> None:
    play = _store(tmp_path, Tape().sent(0).gets(0).exits("reader-0", code=3))
    assert [outcome.outcome for outcome in rejudge_run(tmp_path)] == ["inconclusive"]
    (play / "scenario.toml").write_text(dump(scene(Fault("exit", "reader-0"))))
    assert [outcome.outcome for outcome in rejudge_run(tmp_path)] == ["held"]


def test_a_judge_that_fails_has_judged_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Finding:
        raise ZeroDivisionError("of its own")

    monkeypatch.setitem(CHECKERS, "R3", broken)
    _store(tmp_path, Tape().sent(0).gets(0))
    (outcome,) = rejudge_run(tmp_path)
    assert outcome.outcome == "inconclusive"
    assert outcome.cause == "the judge itself failed: ZeroDivisionError: of its own"


def test_a_record_of_a_target_that_has_nothing_to_judge_is_unsupported(tmp_path: Path) -> None:
    _store(tmp_path, Tape().tell("writer", "secrets", count=0, shown=[]), "S3-x", "S3")
    assert [outcome.outcome for outcome in rejudge_run(tmp_path)] == ["unsupported"]


def test_an_outcome_has_the_name_of_its_case(tmp_path: Path) -> None:
    _store(tmp_path, Tape().sent(0).gets(0))
    assert [outcome.id for outcome in rejudge_run(tmp_path)] == ["R3/synthetic"]
