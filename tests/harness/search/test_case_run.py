"""A case on trial: what counts as evidence, what as doubt, and what convicts."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from synthetic import Tape, scene

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding
from killpoint.ledger import Ledger
from killpoint.runner.stage import Play
from killpoint.scenario import Fault, Point, Scenario, load
from killpoint.search.case_run import CaseRun, Violated
from killpoint.search.play_evidence import Unsupported
from killpoint.verdict import TargetLine

_AIMED = Fault("kill", "writer", Point("send", line=3))


class Given:
    """A player that gives back records made beforehand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.forgotten = 0
        self.files: dict[str, str] = {}
        self.next: dict[str, Any] = {}

    def play(self, scenario: Scenario) -> Play:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "writer.jsonl").write_text("")
        known: dict[str, Any] = {"ledger": Ledger(), "unreached": [], "stalled": ""}
        return Play(scenario=scenario, folder=self.folder, seconds=0.0, **known | self.next)

    def forget(self, _play: Play) -> None:
        self.forgotten += 1


class Bench:
    def __init__(self, place: Path, case: str = "R3/synthetic") -> None:
        self.run = place / "run"
        self.player = Given(place / "play")
        self.player.files = {"ring.py": __file__}
        self.case_run = CaseRun(
            case, self.player, seed=5, full=False, folder=self.run, target="t:x"
        )

    def plays(self, tape: Tape, *steps: Any, **known: Any) -> None:
        self.player.next = {"history": tape.history(), **known}
        self.case_run.play(scene(*steps, judges=self.case_run.outcome.invariant))

    def outcome(self) -> tuple[str, str]:
        concluded = self.case_run.conclude()
        return concluded.outcome, concluded.cause


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _good() -> Tape:
    return Tape().sent(0).gets(0).exits("writer").exits("reader-0")


def _struck() -> Tape:
    tape = Tape().sent(0).gets(0).tell("director", "reached", target="writer", where="a.py:1")
    return tape.kills("writer").fails("peer-died")


def test_a_case_that_played_nothing_is_inconclusive(bench: Bench) -> None:
    assert bench.outcome() == ("inconclusive", "nothing was played")


def test_good_plays_are_held_and_their_counts_add_up(bench: Bench) -> None:
    bench.plays(_good())
    bench.plays(_good())
    assert bench.outcome() == ("held", "")
    assert bench.case_run.outcome.runs == 2
    assert bench.case_run.outcome.counts == {"messages": 2, "sizes": 2}
    assert bench.player.forgotten == 2


def test_a_violation_ends_the_trial_and_keeps_a_replay_for_its_target(bench: Bench) -> None:
    with pytest.raises(Violated):
        bench.plays(Tape().sent(0).sent(1).gets(0))
    outcome = bench.case_run.conclude()
    assert (outcome.outcome, outcome.kind) == ("violated", "lost")
    assert outcome.replay is not None
    kept = load(Path(outcome.replay))
    assert kept.target == "t:x"
    assert (bench.run / "plays" / "R3-synthetic" / "ledger.json").exists()
    assert bench.player.forgotten == 1


def test_a_violation_after_good_plays_and_doubts_still_violates(bench: Bench) -> None:
    bench.plays(_good())
    bench.plays(Tape())
    with pytest.raises(Violated):
        bench.plays(Tape().sent(0).sent(1).gets(0))
    assert bench.outcome()[0] == "violated"


def test_a_play_that_shows_nothing_makes_the_case_inconclusive(bench: Bench) -> None:
    bench.plays(_good())
    bench.plays(Tape())
    assert bench.outcome() == ("inconclusive", "no message arrived anywhere")
    assert not bench.case_run.outcome.by_harness


def test_a_play_that_stalled_is_never_held(bench: Bench) -> None:
    bench.plays(_good(), stalled="the roles did not start")
    assert bench.outcome() == ("inconclusive", "the roles did not start")
    assert bench.case_run.outcome.by_harness


def test_a_judge_that_raises_has_judged_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Finding:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setitem(CHECKERS, "R3", broken)
    bench.plays(_good())
    word, cause = bench.outcome()
    assert word == "inconclusive"
    assert "ZeroDivisionError: on purpose" in cause
    assert bench.case_run.outcome.by_harness


def test_a_role_that_exits_with_an_unexpected_status_is_not_held(bench: Bench) -> None:
    bench.plays(Tape().sent(0).gets(0).exits("writer").exits("reader-0", code=1))
    assert bench.outcome() == ("inconclusive", "reader-0 ended with status 1")


def test_the_status_of_an_exit_fault_is_unexpected_where_there_was_none(bench: Bench) -> None:
    bench.plays(Tape().sent(0).gets(0).exits("writer").exits("reader-0", code=3))
    assert bench.outcome()[0] == "inconclusive"


def test_a_role_that_dies_of_a_signal_nobody_sent_is_not_held(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "Q11/synthetic")
    tape = Tape().ordered("writer", "close").exits("writer", number=signal.SIGSEGV)
    try:
        bench.plays(tape)
    except Violated:
        return
    assert bench.outcome()[0] == "inconclusive"


def test_a_target_that_has_nothing_of_what_is_judged_is_unsupported(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "S3/synthetic")
    with pytest.raises(Unsupported, match="no secret"):
        bench.plays(Tape().tell("writer", "secrets", count=0, shown=[]))


def test_a_target_that_cannot_do_it_is_unsupported(bench: Bench) -> None:
    tape = Tape().tell("writer", "end", op="ring-write", outcome="unsupported", error="no ring")
    with pytest.raises(Unsupported, match="no ring"):
        bench.plays(tape)


# -- placed faults --------------------------------------------------------------------------


def test_a_fault_that_struck_is_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "Q6/synthetic")
    bench.plays(_struck(), _AIMED)
    assert bench.outcome() == ("held", "")
    assert bench.case_run.outcome.struck == 1


def test_a_play_whose_point_was_not_reached_is_inconclusive(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "Q6/synthetic")
    bench.plays(_good(), _AIMED, unreached=["kill of writer"])
    word, cause = bench.outcome()
    assert (word, bench.case_run.outcome.struck) == ("inconclusive", 0)
    assert "kill of writer" in cause


def test_an_unreached_point_is_not_judged_at_all(bench: Bench) -> None:
    bench.plays(Tape().sent(0).sent(1).gets(0), _AIMED, unreached=["kill of writer"])
    assert bench.outcome()[0] == "inconclusive"


def test_a_point_that_was_reached_by_one_who_did_not_die_of_it_has_not_struck(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, "Q6/synthetic")
    bench.plays(_good().tell("director", "reached", target="writer"), _AIMED, unreached=[])
    bench.plays(Tape().sent(0).tell("director", "reached", target="writer"), _AIMED)
    assert bench.case_run.outcome.struck == 1


@pytest.mark.parametrize(("missed", "word"), [(1, "held"), (2, "inconclusive")])
def test_one_miss_in_twenty_is_forgiven(tmp_path: Path, missed: int, word: str) -> None:
    bench = Bench(tmp_path, "Q6/synthetic")
    for turn in range(20):
        if turn < missed:
            bench.plays(_good(), _AIMED, unreached=["kill of writer"])
        else:
            bench.plays(_struck(), _AIMED)
    assert bench.outcome()[0] == word


def test_an_unexpected_status_is_not_forgiven_among_twenty(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "Q6/synthetic")
    for _ in range(20):
        bench.plays(_struck(), _AIMED)
    bench.plays(_struck().exits("reader-0", code=1), _AIMED)
    assert bench.outcome()[0] == "inconclusive"


# -- leaks ----------------------------------------------------------------------------------


def test_a_leak_is_noted_with_a_replay_and_does_not_end_the_trial(bench: Bench) -> None:
    bench.plays(_good(), ledger=Ledger(segments=["psm_9"]))
    assert bench.outcome()[0] == "held"
    (leak,) = bench.case_run.leaks
    assert leak.violation.kind == "leak"
    assert "psm_9" in leak.violation.evidence[-1]
    assert leak.replay is not None
    assert load(Path(leak.replay)).judges == ["L1"]  # and not the case's own: that held


def test_what_a_stalled_play_left_is_no_leak_of_the_target(bench: Bench) -> None:
    bench.plays(_good(), ledger=Ledger(segments=["psm_9"]), stalled="no queue")
    assert bench.case_run.leaks == []


def test_a_scouting_play_is_no_evidence(bench: Bench) -> None:
    bench.player.next = {"history": _good().history()}
    bench.case_run.dry_run(scene())
    assert bench.outcome() == ("inconclusive", "nothing was played")
    assert bench.player.forgotten == 1


def test_a_scouting_play_that_the_target_cannot_do_is_unsupported(bench: Bench) -> None:
    tape = Tape().tell("writer", "end", op="barrier", outcome="unsupported", error="no timeout")
    bench.player.next = {"history": tape.history()}
    with pytest.raises(Unsupported, match="no timeout"):
        bench.case_run.dry_run(scene())


def test_a_point_that_may_be_missed_is_no_doubt_when_it_is(bench: Bench) -> None:
    bench.player.next = {"history": _good().history(), "unreached": ["kill of writer"]}
    bench.case_run.play(scene(_AIMED), may_miss=True)
    assert bench.case_run.outcome.runs == 0
    bench.plays(_good())
    assert bench.outcome() == ("held", "")


def test_only_plays_with_an_end_at_a_point_are_crash_runs(bench: Bench) -> None:
    bench.plays(_good())
    assert bench.case_run.outcome.crash_runs == 0
    bench.plays(_struck(), _AIMED)
    assert bench.case_run.outcome.crash_runs == 1
    assert bench.case_run.outcome.crash_seconds > 0


def test_a_violation_carries_the_targets_own_line(bench: Bench) -> None:
    line = Given.forget.__code__.co_firstlineno
    tape = Tape().sent(0).waits().later(4000)
    stack = [f"forget (ring.py:{line})"]
    tape.tell("director", "hang", target="reader-0", op="receive", stack=stack)
    with pytest.raises(Violated):
        bench.plays(tape)
    (found,) = bench.case_run.outcome.violations
    assert found.place == TargetLine("ring.py", "Given.forget", line)
