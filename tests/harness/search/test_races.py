"""Races: a rate of a few plays; a replay has enough of them to show what one of a few showed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st
from synthetic import Tape

from killpoint.judgement.replay import play_as_told
from killpoint.ledger import Ledger
from killpoint.runner.stage import Play
from killpoint.scenario import Receive, Scenario, Send, load
from killpoint.search.case_run import CaseRun
from killpoint.search.generated import generated
from killpoint.search.races import REPLAYED, race
from killpoint.targets.protocol import QueueShape
from killpoint.verdict import CaseOutcome

_STORY = Scenario(
    "Q7/x", ["Q7"], [Receive(3, ("reader-0",)), Send([])], shape=QueueShape(readers=2)
)


class _Racy:
    """A player whose writer hangs in one play of so many."""

    def __init__(self, seldom: int) -> None:
        self.hangs: Callable[[int], bool] = lambda play: play % seldom == 0
        self.played: list[Scenario] = []

    def play(self, scenario: Scenario) -> Play:
        self.played.append(scenario)
        tape = Tape().sent(0).kills("reader-0")
        if self.hangs(len(self.played)):
            tape.sends(1).later(30_000).hangs("writer", "send")
        else:
            tape.sent(1).gets(0, "reader-1").gets(1, "reader-1")
        return Play(scenario, tape.history(), Ledger(), [], "", Path(), 0.0)

    def forget(self, play: Play) -> None:
        """Nothing is kept."""


def _trial(player: _Racy) -> CaseRun:
    case_run = CaseRun("Q7/x", player, seed=0, full=False, folder=None)
    case_run.kept.record = lambda play, name: None  # type: ignore[method-assign] # there is no folder
    return case_run


def test_a_replay_of_a_race_is_played_until_it_shows() -> None:
    first = _Racy(3)
    found = _trial(first).judge(lambda case_run: race(case_run, _STORY, "plays"))
    assert (found.outcome, found.rates[0].hits, found.rates[0].trials) == ("violated", 1, 3)
    again = _Racy(8)
    shown = _trial(again).judge(lambda case_run: play_as_told(case_run, first.played[-1]))
    assert (shown.outcome, len(again.played)) == ("violated", 8)


def test_a_replay_of_a_race_ends_and_another_ones_is_one_play() -> None:
    held = _Racy(1000)
    raced = _Racy(1000)
    _trial(raced).judge(lambda case_run: race(case_run, _STORY, "plays"))
    outcome = _trial(held).judge(lambda case_run: play_as_told(case_run, raced.played[0]))
    assert (outcome.outcome, len(held.played)) == ("held", 60)
    once = _Racy(2)
    assert _trial(once).judge(lambda case_run: play_as_told(case_run, _STORY)).outcome == "held"
    assert len(once.played) == 1


def _drawn(tmp_path: Path, shown: Callable[[int], bool]) -> CaseOutcome:
    """What a drawn program is found to be whose writer hangs in those of its plays."""
    player = _Racy(1)
    player.hangs = shown
    case_run = CaseRun("Q7/x", player, seed=0, full=False, folder=tmp_path)
    case_run.kept.record = lambda play, name: None  # type: ignore[method-assign] # no play has a folder
    return case_run.judge(lambda case_run: generated(case_run, st.just(_STORY), 5))


def test_a_drawn_program_that_violates_by_chance_is_told_by_its_rate(tmp_path: Path) -> None:
    found = _drawn(tmp_path, lambda play: play in {1, 5})
    assert (found.outcome, [(r.hits, r.trials) for r in found.rates]) == ("violated", [(1, 3)])
    assert found.replay is not None
    assert load(Path(found.replay)).plays == REPLAYED


def test_a_drawn_program_that_always_violates_is_replayed_once(tmp_path: Path) -> None:
    found = _drawn(tmp_path, lambda play: True)
    assert (found.outcome, found.rates) == ("violated", [])
    assert found.replay is not None
    assert load(Path(found.replay)).plays == 1
