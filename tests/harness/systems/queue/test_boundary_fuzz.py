"""Fuzzed workloads: around the boundary, shrunk when they fail, never held by accident."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from synthetic import Tape

from killpoint.ledger import Ledger
from killpoint.runner.stage import Play
from killpoint.scenario import Message, Receive, Scenario, Send, dump, parse
from killpoint.search.case_run import CaseRun, Violated
from killpoint.search.generated import generated
from killpoint.search.play_evidence import Unsupported
from killpoint.systems.queue.boundary_fuzz import messages, sizes, workloads

_quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


class Playing:
    """A queue that loses every message from ``breaks_at`` bytes on."""

    def __init__(self, breaks_at: int, *errors: Exception) -> None:
        """``errors``: what its first plays raise."""
        self.breaks_at = breaks_at
        self.errors = list(errors)

    def play(self, scenario: Scenario) -> Play:
        if self.errors:
            raise self.errors.pop()
        tape = Tape()
        batch = next(s.messages for s in scenario.steps if isinstance(s, Send))
        for seq, message in enumerate(batch):
            tape.sent(seq, form=message.kind, size=message.size)
        for reader in scenario.readers():
            for seq, message in enumerate(batch):
                if message.size < self.breaks_at:
                    tape.gets(seq, reader)
        return Play(scenario, tape.history(), Ledger(), [], "", Path(), 0.0)

    def forget(self, play: Play) -> None:
        """Nothing is kept."""


def _trial(player: Playing) -> CaseRun:
    return CaseRun("Q1/fuzz", player, seed=2, full=False, folder=None)


@_quick
@given(sizes(1024))
def test_sizes_stay_within_four_chunks(size: int) -> None:
    assert 0 <= size <= 4096


@_quick
@given(messages(64))
def test_messages_can_be_decoded_at_the_other_side(message: Message) -> None:
    assert message.kind not in ("undecodable", "unencodable")


@_quick
@given(workloads("Q1/fuzz", 7))
def test_a_workload_is_a_scenario_file_and_asks_for_every_message(scenario: Scenario) -> None:
    assert parse(dump(scenario), "x") == scenario
    (send,) = [step for step in scenario.steps if isinstance(step, Send)]
    (receive,) = [step for step in scenario.steps if isinstance(step, Receive)]
    assert receive.count == len(send.messages)


def test_a_queue_that_keeps_its_promise_is_held() -> None:
    case_run = _trial(Playing(1 << 40))
    generated(case_run, workloads("Q1/fuzz", 2), 12)
    assert case_run.conclude().outcome == "held"


def test_a_violation_is_shrunk_to_one_message_at_the_size_that_breaks() -> None:
    case_run = _trial(Playing(100))
    told: list[Scenario] = []
    case_run.kept.replay = lambda play, _name, _cause: told.append(play.scenario)
    with pytest.raises(Violated):
        generated(case_run, workloads("Q1/fuzz", 2), 60)
    assert case_run.conclude().outcome == "violated"
    (send,) = [step for step in told[-1].steps if isinstance(step, Send)]
    assert [message.size for message in send.messages] == [100]
    assert told[-1].shape.readers == 1


def test_what_violated_once_is_the_first_thing_that_the_next_trial_plays(tmp_path: Path) -> None:
    told: list[Scenario] = []
    for seed in (2, 3):
        player = Playing(100)
        case_run = CaseRun("Q1/fuzz", player, seed=seed, full=False, folder=None, examples=tmp_path)
        case_run.kept.replay = lambda play, _name, _cause: told.append(play.scenario)
        before = len(told)
        with pytest.raises(Violated):
            generated(case_run, workloads("Q1/fuzz", 2), 60)
    assert told[before] == told[before - 1]


def test_what_a_target_cannot_do_passes_through() -> None:
    with pytest.raises(Unsupported):
        generated(_trial(Playing(10, *[Unsupported("no")] * 50)), workloads("Q1/fuzz", 2), 5)


def test_a_failure_of_the_harness_within_the_fuzz_is_not_held() -> None:
    case_run = _trial(Playing(1 << 40, OSError("disk full")))
    try:
        generated(case_run, workloads("Q1/fuzz", 2), 5)
    except Violated:
        assert case_run.conclude().outcome != "held"
    except OSError:
        return
    raise AssertionError("the error was swallowed")
