"""Lines to strike: counted once, then all of them or a sample that the seed decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic import Tape, scene

from killpoint.ledger import Ledger
from killpoint.runner.stage import Play
from killpoint.scenario import AnyStep, Count, Fault, Point, Scenario, Send, Wait
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import TooLittleRoom, chosen, count_lines
from killpoint.systems.queue.cases.deaths import anywhere, around_death


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
            if isinstance(step, Count) and step.role != "writer":
                tape.tell(step.role, "lines", op=step.at.op, count=self.count)
            if isinstance(step, Fault):
                tape.tell("director", "reached", target=step.role).kills(step.role)
                for reader in scenario.readers():
                    tape.gets(0, reader).fails("peer-died", reader)
        return Play(scenario, tape.history(), Ledger(), [], "", Path(), 0.0)

    def forget(self, play: Play) -> None:
        """Nothing is kept."""


def _trial(player: Counting, *, full: bool = False, seed: int = 1) -> CaseRun:
    return CaseRun("Q6/x", player, seed=seed, full=full, folder=None)


def _around(step: AnyStep) -> Scenario:
    return scene(step)


def test_lines_are_counted_by_a_play_that_is_no_evidence() -> None:
    player = Counting(41)
    case_run = _trial(player)
    assert count_lines(case_run, "writer", Point("send"), _around) == 41
    assert case_run.plays == 0
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

    case_run = _trial(OnlySends(30))
    anywhere(case_run, "writer", 8)
    assert case_run.conclude().outcome == "inconclusive"


class Shallow(Counting):
    """A queue that takes no large message while nobody reads."""

    def play(self, scenario: Scenario) -> Play:
        played = super().play(scenario)
        ahead = next(s for s in scenario.steps if isinstance(s, Send))
        tape = Tape().sent(0)
        after = scenario.steps[scenario.steps.index(ahead) + 1]
        if after == Wait(("writer",)):
            tape.sent(1, "timeout", form="array", size=100_000, s=5.0)
            played.history = tape.history()
        return played


def test_a_call_that_needs_more_unread_room_than_there_is_cannot_be_asked() -> None:
    with pytest.raises(TooLittleRoom, match=r"message 1 \(array, 100000 bytes\)"):
        count_lines(
            _trial(Shallow(9)), "reader-0", Point("receive"), around_death("Q7/x", "reader-0")
        )


def test_a_readers_death_is_then_played_while_the_writer_still_sends() -> None:
    player = Shallow(9)
    anywhere(_trial(player), "reader-0", 6)
    assert [s for s in player.played if any(isinstance(step, Fault) for step in s.steps)]
