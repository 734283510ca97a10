"""What a trial does with a violation: shown again alone if it rests on time; a sweep goes on."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from synthetic import Tape, scene

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding, JudgedElsewhere
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.runner.stage import Play
from killpoint.scenario import Fault, Point, Retry, Scenario
from killpoint.search import case_run as trials
from killpoint.search.case_run import CaseRun, Violated
from killpoint.search.reach import CaseReach, Reach


class Playing:
    """A player that gives back one record after the other; ``alone``, the ones for plays alone."""

    def __init__(self, folder: Path, beside: list[Any], alone: list[Any]) -> None:
        self._folder = folder
        self.beside, self.alone = beside, alone
        self.played: list[str] = []
        self.held: set[Path] = set()
        self.confirmed: set[str] = set()

    def play(self, scenario: Scenario) -> Play:
        return self._give(scenario, "beside", self.beside.pop(0))

    def without_others(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def play_alone(self, scenario: Scenario) -> Play:
        return self._give(scenario, "alone", self.alone.pop(0))

    def forget(self, play: Play) -> None:
        self.held.remove(play.folder)
        for path in play.folder.iterdir():
            path.unlink()
        play.folder.rmdir()

    def _give(self, scenario: Scenario, how: str, said: Any) -> Play:
        self.played.append(how)
        folder = self._folder / str(len(self.played))
        folder.mkdir(parents=True)
        (folder / "writer.jsonl").write_text("")
        self.held.add(folder)
        known = said if isinstance(said, dict) else {"history": said.history()}
        known = {"ledger": Ledger(), "unreached": [], "stalled": "", "history": History([])} | known
        return Play(scenario=scenario, folder=folder, seconds=0.0, **known)


def _good() -> Tape:
    return Tape().sent(0).gets(0).exits("writer").exits("reader-0")


def _lost() -> Tape:
    return Tape().sent(0).sent(1).gets(0).fails("timeout")


def _twice() -> Tape:
    return Tape().sent(0).gets(0).gets(0)


class Bench:
    def __init__(self, place: Path, beside: list[Any], alone: list[Any], **how: Any) -> None:
        self.player = Playing(place / "plays", beside, alone)
        known: dict[str, Any] = {"seed": 0, "full": False, "folder": place / "run"}
        how = {"confirms": True} | how
        self.case_run = CaseRun("R3/synthetic", self.player, **known, **how)

    def plays(self, times: int = 1, *, swept: bool = False) -> bool:
        """Whether the trial goes on."""
        try:
            for _ in self.case_run.with_progress(range(times)) if swept else range(times):
                self.case_run.play(scene(judges="R3"))
        except Violated:
            return False
        finally:
            assert not self.player.held
        return True


def test_what_rests_on_time_is_told_if_a_play_alone_shows_it_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [_lost()], [_lost()])
    assert not bench.plays()
    outcome = bench.case_run.conclude()
    assert (outcome.outcome, outcome.kind) == ("violated", "lost")
    assert outcome.violations[0].alone == [1, 1]
    assert outcome.replay is not None
    assert Path(outcome.replay).exists()
    assert (tmp_path / "run" / "plays" / "R3-synthetic" / "writer.jsonl").exists()


def test_what_comes_now_and_then_alone_is_told_with_how_often(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [_lost()], [_good(), _good(), _lost()])
    assert not bench.plays()
    assert bench.case_run.conclude().violations[0].alone == [1, 3]


def test_what_no_play_alone_shows_is_no_violation(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [_lost(), _good()], [_good()] * 3)
    assert bench.plays(2)
    outcome = bench.case_run.conclude()
    assert (outcome.outcome, outcome.runs) == ("held", 2)
    assert outcome.violations == []
    (told,) = outcome.unconfirmed
    assert told.startswith("lost: ")
    assert "in none of 3 alone" in told


def test_what_does_not_rest_on_time_needs_no_second_play(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [_twice()], [])
    assert not bench.plays()
    assert bench.case_run.conclude().violations[0].alone == []


class _Recording(Playing):
    """A player whose roles can record lines."""

    def play_recorded(self, scenario: Scenario) -> Play:
        return self._give(scenario, "recorded", self.beside.pop(0) | {"lines": {"q.py": [1, 2]}})


def _recorded(folder: Path, beside: list[Any], alone: list[Any]) -> Bench:
    bench = Bench(folder, beside, alone, reach=Reach(CaseReach(), steers=True))
    bench.player.__class__ = _Recording
    bench.case_run.records = True
    return bench


def _told(tape: Tape) -> dict[str, Any]:
    return {"history": tape.history()}


def test_what_a_play_that_recorded_lines_shows_counts_if_one_that_did_not_shows_it(
    tmp_path: Path,
) -> None:
    bench = _recorded(tmp_path, [_told(_twice()), _good(), _twice()], [])
    assert not bench.plays()
    assert bench.player.played == ["recorded", "beside", "beside"]
    assert bench.case_run.conclude().violations[0].alone == []
    assert not bench.case_run.records, "smaller ones are looked for without the recorder"


def test_what_only_plays_that_record_lines_show_is_no_violation(tmp_path: Path) -> None:
    bench = _recorded(tmp_path, [_told(_twice()), *[_good()] * 10], [])
    assert bench.plays()
    outcome = bench.case_run.conclude()
    assert outcome.outcome == "held"
    (told,) = outcome.unconfirmed
    assert told.startswith("duplicate: ")
    assert bench.player.played == ["recorded", *["beside"] * 10]
    assert "in none of 10 that recorded nothing" in told


def test_what_rests_on_time_is_played_alone_without_the_recorder(tmp_path: Path) -> None:
    bench = _recorded(tmp_path, [_told(_lost())], [_lost()])
    assert not bench.plays()
    assert bench.player.played == ["recorded", "alone"]


def test_a_leak_of_a_play_that_recorded_lines_is_looked_for_without_the_recorder(
    tmp_path: Path,
) -> None:
    left = {"ledger": Ledger(files=["a"], types={"a": "unix socket"})}
    bench = _recorded(tmp_path, [_told(_good()) | left], [_good()])
    assert bench.plays()
    assert bench.player.played == ["recorded", "alone"]
    assert bench.case_run.leaks == []


def test_a_recorded_play_adds_to_the_reach_and_another_does_not(tmp_path: Path) -> None:
    bench = _recorded(tmp_path, [_told(_good()), _good()], [])
    bench.plays()
    bench.case_run.records = False
    bench.plays()
    assert bench.player.played == ["recorded", "beside"]
    assert bench.case_run.reach is not None
    assert bench.case_run.reach.added == CaseReach(1, {"q.py": {1: 1, 2: 1}}, 0)


def test_a_trial_that_does_not_confirm_plays_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [_lost()], [], confirms=False)
    assert not bench.plays()
    assert bench.player.played == ["beside"]


def test_a_play_that_said_nothing_is_played_again_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [{"stalled": "no queue"}], [_good()])
    assert bench.plays()
    assert bench.case_run.conclude().outcome == "held"


def test_what_another_invariant_judges_is_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(*_: object) -> Finding:
        raise JudgedElsewhere("it has not ended: E6 judges that")

    monkeypatch.setitem(CHECKERS, "R3", elsewhere)
    bench = Bench(tmp_path, [_good()], [])
    assert bench.plays()
    assert bench.player.played == ["beside"]
    assert bench.case_run.conclude().outcome == "inconclusive"


def test_what_says_nothing_alone_either_is_a_doubt_with_its_record(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [{"stalled": "no queue"}] * 4, [{"stalled": "no queue"}] * 2)
    assert bench.plays(4)
    outcome = bench.case_run.conclude()
    assert (outcome.outcome, outcome.cause) == ("inconclusive", "no queue")
    assert bench.player.alone == []  # two of them, and no more
    assert (tmp_path / "run" / "plays" / "R3-synthetic-doubt").exists()


def test_a_part_that_was_gone_before_its_fault_is_not_awaited_in_a_second_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "own_player_of", lambda _scenario: "server")
    late = {"history": Tape().tell("director", "not-reached", phase="decode").history()}
    gone = {"history": Tape().tell("director", "not-reached", target="core", gone=True).history()}
    unreached = {"unreached": ["a fault"]}
    bench = Bench(tmp_path, [gone | unreached, late | unreached], [late | unreached])
    assert bench.plays()
    assert bench.player.played == ["beside"]
    assert bench.plays()
    assert bench.player.played == ["beside", "beside", "alone"]


def test_a_sweep_goes_on_to_violations_of_another_kind(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [_twice(), _good(), _lost(), _twice()], [_lost()])
    assert bench.plays(4, swept=True)
    outcome = bench.case_run.conclude()
    assert [(v.kind, v.plays) for v in outcome.violations] == [("lost", 1), ("duplicate", 2)]
    assert outcome.kind == "lost"  # the worst stands for the case
    replays = [Path(v.replay or "").name for v in outcome.violations]
    assert replays == ["R3-synthetic-2.toml", "R3-synthetic.toml"]


def test_a_sweep_that_sees_the_same_again_and_again_is_over(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [_twice()] * 9, [])
    assert not bench.plays(9, swept=True)
    assert bench.case_run.conclude().violations[0].plays == 3


def test_a_sweep_goes_on_for_a_while_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_AFTER_THE_FIRST", 0.0)
    bench = Bench(tmp_path, [_twice(), _lost()], [])
    assert not bench.plays(2, swept=True)
    assert len(bench.player.played) == 1


def test_what_the_same_steps_leave_anyhow_is_not_the_exceptions(tmp_path: Path) -> None:
    struck = Tape().sent(0).gets(0).tell("writer", "raised", where="q.py:1").exits("writer")
    struck.tell("director", "reached", target="writer", where="q.py:1")
    left = Ledger(files=["a", "b"], types={"a": "unix socket", "b": "unix socket"})
    more = Ledger(files=["a", "b", "c"], types=dict.fromkeys("abc", "unix socket"))
    plays = [
        {"history": struck.history(), "ledger": left},
        {"history": _good().history(), "ledger": left},
        {"history": _good().history(), "ledger": left},
        {"history": struck.history(), "ledger": more},
    ]
    player = Playing(tmp_path / "plays", plays, [])
    case_run = CaseRun("R9/synthetic", player, seed=0, full=False, folder=None)
    fault = Fault("raise", "writer", Point("send", line=3))
    story = scene(fault, Retry("writer"), judges="R9")
    case_run.play(story)
    assert case_run.conclude().outcome == "held"
    with pytest.raises(Violated):
        case_run.play(story)
    assert "1 unix socket stayed" in case_run.outcome.cause
    assert len(player.played) == 4  # the plays that tell what is usual are played once
