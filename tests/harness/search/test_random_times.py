"""Faults at random times: a series of plays, and a rate with its interval."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import Tape

from killpoint.cases import CASES
from killpoint.ledger import Ledger
from killpoint.runner.stage import Play
from killpoint.scenario import (
    Count,
    Fault,
    Point,
    Receive,
    Scenario,
    Send,
    dump,
    load,
    parse,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.random_times import series, strike_at_random_times
from killpoint.signature import signature
from killpoint.targets.protocol import QueueShape

_OF = "kills of reader-0 at random times inside receive"


def _story(spread: int = 60) -> Scenario:
    strike = Fault("kill", "reader-0", Point("receive", spread=spread))
    steps = [strike, Receive(3, ("reader-0",)), Send([])]
    return Scenario("Q7/x", ["Q7"], list(steps), shape=QueueShape(2))


class Timed:
    """A player whose receives last 10 to 100 µs; the writer hangs after some of the kills."""

    def __init__(self, *, hangs: tuple[int, ...] = (), outlived: tuple[int, ...] = ()) -> None:
        self.hangs = hangs
        self.outlived = outlived
        self.played: list[Point] = []

    def play(self, scenario: Scenario) -> Play:
        tape = Tape()
        (step,) = [s for s in scenario.steps if isinstance(s, (Fault, Count)) and s.at]
        if isinstance(step, Count):
            for number in range(1, 11):
                tape.tell("reader-0", "took", op="receive", ns=number * 10_000)
            return self._as_play(scenario, tape)
        assert step.at is not None
        number = len(self.played)
        self.played.append(step.at)
        tape.sent(0).tell("reader-0", "receive")
        if number in self.outlived:
            tape.tell("reader-0", "got", outcome="ok", seq=0, digest="d0")
        tape.tell("director", "reached", target="reader-0", where="9 µs into receive")
        if step.fault == "kill":
            tape.kills("reader-0")
        else:
            tape.gets(0).sent(1).gets(1).gets(0, "reader-1").gets(1, "reader-1")
        if number in self.hangs:
            tape.sends(1).later(3000).hangs("writer", "send")
        elif step.fault == "kill":
            tape.sent(1).gets(0, "reader-1").gets(1, "reader-1")
        return self._as_play(scenario, tape)

    def _as_play(self, scenario: Scenario, tape: Tape) -> Play:
        return Play(scenario, tape.history(), Ledger(), [], "", Path(), 0.0)

    def forget(self, play: Play) -> None:
        """Nothing is kept."""


def _judged(player: Timed, *, seed: int = 3, full: bool = False, folder: Path | None = None):
    case_run = CaseRun("Q7/x", player, seed=seed, full=full, folder=folder, target="a:B")
    case_run.kept.record = lambda play, name: None  # type: ignore[method-assign] # there is no folder
    return case_run.judge(lambda case_run: strike_at_random_times(case_run, _story()))


def test_a_series_without_harm_is_held_and_says_what_it_cannot_exclude() -> None:
    outcome = _judged(Timed())
    assert (outcome.outcome, outcome.runs, outcome.struck) == ("held", 60, 60)
    (rate,) = outcome.rates
    assert rate.words() == f"a survivor was harmed after 0 of 60 {_OF} (95 %: 0 … 6 %)"


def test_a_hang_after_some_of_the_kills_is_told_as_a_rate() -> None:
    outcome = _judged(Timed(hangs=(7, 41)))
    assert (outcome.outcome, outcome.kind) == ("violated", "hang")
    (rate,) = outcome.rates
    assert (rate.what, rate.of, rate.hits, rate.trials) == ("the writer hung", _OF, 2, 60)
    assert outcome.cause.startswith(f"the writer hung after 2 of 60 {_OF} (95 %: 0.4 … 11.5 %): ")
    assert "writer still waited in send" in outcome.cause


def test_the_signature_does_not_depend_on_the_days_luck() -> None:
    causes = [_judged(Timed(hangs=hangs)).cause for hangs in ((7, 41), (3,), (1, 2, 30))]
    assert len(set(causes)) == 3
    assert len({signature("Q7/x", "hang", cause) for cause in causes}) == 1


def test_a_rate_that_is_known_well_enough_ends_the_series() -> None:
    player = Timed(hangs=tuple(range(60)))
    outcome = _judged(player)
    assert len(player.played) == 5
    assert (outcome.rates[0].hits, outcome.rates[0].trials) == (5, 5)


def test_a_kill_after_the_call_had_come_back_is_not_counted() -> None:
    outcome = _judged(Timed(hangs=(0, 1), outlived=(0, *range(10, 20))))
    (rate,) = outcome.rates
    assert (rate.hits, rate.trials) == (1, 49)


def test_where_none_struck_nothing_is_known() -> None:
    outcome = _judged(Timed(outlived=tuple(range(60))))
    assert (outcome.outcome, outcome.rates) == ("inconclusive", [])
    assert outcome.cause == f"none of the {_OF} fell inside it"


def test_times_are_spread_over_the_measured_durations_and_are_the_seeds() -> None:
    first, again, other = Timed(), Timed(), Timed()
    for player, seed in ((first, 3), (again, 3), (other, 4)):
        _judged(player, seed=seed)
    assert first.played == again.played != other.played
    times = sorted(point.after or 0.0 for point in first.played)
    assert times[0] < 10e-6
    assert 45e-6 < times[-1] <= 90e-6  # but for the longest, in which the machine did other things
    assert len(set(times)) == 60
    assert all(point.spread is None for point in first.played)


def test_a_full_series_has_more_plays() -> None:
    player = Timed()
    _judged(player, full=True)
    assert len(player.played) == 300


def test_its_replay_plays_the_series_again(tmp_path: Path) -> None:
    outcome = _judged(Timed(hangs=(7, 41)), folder=tmp_path)
    assert outcome.replay is not None
    again = load(Path(outcome.replay))
    assert again.target == "a:B"
    found = series(again)
    assert found is not None
    assert found.at == Point("receive", spread=60)


@pytest.mark.parametrize("case", [c for c in CASES if "native" in c.needs], ids=lambda c: c.id)
def test_each_case_is_a_series_of_calls_that_have_deadlines(case: object) -> None:
    (found,) = [each for each in CASES if each is case]
    player = Timed()
    case_run = CaseRun(found.id, player, seed=1, full=False, folder=None)
    played: list[Scenario] = []
    player.play = lambda scenario: (played.append(scenario), Timed.play(player, scenario))[1]  # type: ignore[method-assign] # to keep what is played
    case_run.judge(found.run)
    assert len(played) > 60
    for scenario in played[:3]:
        assert parse(dump(scenario), "x") == scenario
        calls = [s for s in scenario.steps if isinstance(s, (Send, Receive))]
        assert all(call.timeout is not None for call in calls)
