"""Lines to strike: counted once, then all of them or a sample that the seed decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic import Tape, scene

from killpoint.cases.deaths import anywhere
from killpoint.explore.kills import chosen, count_lines
from killpoint.explore.trial import Trial
from killpoint.ledger import Ledger
from killpoint.scenario import AnyStep, Count, Fault, Point, Scenario
from killpoint.stage.stage import Play


class Counting:
    """A player whose operations all execute ``count`` lines; it keeps what was played."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.played: list[Scenario] = []

    def play(self, scenario: Scenario) -> Play:
        self.played.append(scenario)
        tape = Tape().sent(0)
        if self.count and any(isinstance(step, Count) for step in scenario.steps):
            tape.tell("writer", "lines", op="send", count=self.count)
        for step in scenario.steps:
            if isinstance(step, Fault):
                tape.tell("director", "reached", target=step.role).kills(step.role)
                for reader in scenario.readers():
                    tape.gets(0, reader).fails("peer-died", reader)
        return Play(scenario, tape.history(), Ledger(), [], "", Path(), 0.0)

    def forget(self, play: Play) -> None:
        """Nothing is kept."""


def _trial(player: Counting, *, full: bool = False, seed: int = 1) -> Trial:
    return Trial("Q6/x", player, seed=seed, full=full, folder=None)


def _around(step: AnyStep) -> Scenario:
    return scene(step)


def test_lines_are_counted_by_a_play_that_is_no_evidence() -> None:
    player = Counting(41)
    trial = _trial(player)
    assert count_lines(trial, "writer", Point("send"), _around) == 41
    assert trial.plays == 0
    (step,) = player.played[0].steps
    assert isinstance(step, Count)


def test_a_sample_is_distinct_sorted_in_range_and_the_seeds_own() -> None:
    lines = chosen(_trial(Counting(0), seed=3), 100, 8)
    assert len(set(lines)) == 8
    assert lines == sorted(lines)
    assert set(lines) <= set(range(100))
    assert lines == chosen(_trial(Counting(0), seed=3), 100, 8)
    assert lines != chosen(_trial(Counting(0), seed=4), 100, 8)


@pytest.mark.parametrize(
    ("count", "samples", "full"), [(5, 9, False), (5, 5, False), (50, 2, True)]
)
def test_few_lines_or_a_full_run_strike_every_line(count: int, samples: int, full: bool) -> None:
    assert chosen(_trial(Counting(0), full=full), count, samples) == list(range(count))


def test_a_sweep_plays_its_samples_over_all_places() -> None:
    player = Counting(30)
    anywhere(_trial(player), "writer", 6)
    placed: list[Any] = [s for p in player.played for s in p.steps if isinstance(s, Fault)]
    assert len(placed) == 6
    assert {fault.at.op for fault in placed} == {"send", "close"}


def test_an_operation_in_which_no_line_was_counted_leaves_a_doubt() -> None:
    class OnlySends(Counting):
        def play(self, scenario: Scenario) -> Play:
            counted = [step for step in scenario.steps if isinstance(step, Count)]
            self.count = 0 if counted and counted[0].at.op == "close" else 30
            return super().play(scenario)

    trial = _trial(OnlySends(30))
    anywhere(trial, "writer", 8)
    assert trial.conclude().outcome == "inconclusive"
