"""A simulated play on trial: what becomes of what was found where the target is loaded."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from killpoint.errors import BadUsage
from killpoint.runner.stage import Play
from killpoint.scenario import (
    Message,
    Receive,
    RingRead,
    Scenario,
    Send,
    Simulated,
    dump,
    load,
    parse,
)
from killpoint.search.case_run import CaseRun, Violated
from killpoint.search.play_evidence import Unsupported
from killpoint.search.schedule_run import messages_of, search
from killpoint.search.schedules.exploration import Searched
from killpoint.search.simulated import Ask, Explored, SearchCall
from killpoint.verdict import Violation

_WEAK = Simulated("relaxed")


def _scenario(simulated: Simulated = _WEAK) -> Scenario:
    steps = [Send([Message(repeat=2), Message()]), Receive(3)]
    return Scenario("R5/x", ["R5"], steps, simulated=simulated)


class Answering:
    """A player whose target-side answers are given."""

    def __init__(self, explored: Explored) -> None:
        self.explored = explored
        self.errands: list[SearchCall] = []

    def play(self, scenario: Scenario) -> Play:
        raise AssertionError(scenario)

    def forget(self, play: Play) -> None:
        raise AssertionError(play)

    def call(self, function: str, data: bytes, within: float) -> bytes:
        assert function == "killpoint.search.simulated:answer"
        assert within > 0
        self.errands.append(msgspec.msgpack.decode(data, type=SearchCall))
        return msgspec.msgpack.encode(self.explored)


def _trial(explored: Explored, folder: Path | None = None) -> tuple[CaseRun, Answering]:
    player = Answering(explored)
    return CaseRun("R5/x", player, seed=4, full=False, folder=folder, target="t:x"), player


def _searched(count: int, complete: bool = True) -> Searched:
    return Searched("≤ 2 delays", count, complete, count * 50, 0.5)


def test_what_was_searched_is_the_strength() -> None:
    case_run, player = _trial(Explored([_searched(1000)]))
    search(case_run, _scenario(), [Ask("delays")])
    outcome = case_run.conclude()
    assert (outcome.outcome, outcome.counts) == ("held", {"schedules": 1000})
    assert outcome.searched == [
        "relaxed, 2 readers, 4 slots, 3 messages: all 1000 schedules with ≤ 2 delays, 2000/s"
    ]
    assert (player.errands[0].seed, player.errands[0].memory) == (4, "relaxed")


def test_a_cap_is_told() -> None:
    case_run, _ = _trial(Explored([_searched(10, complete=False)]))
    search(case_run, _scenario(), [Ask("delays")])
    assert "capped at 10 schedules" in case_run.conclude().searched[0]


@pytest.mark.parametrize(("memory", "model_only"), [("relaxed", True), ("tso", False)])
def test_a_violation_is_kept_as_a_file_that_plays_it_again(
    memory: str, model_only: bool, tmp_path: Path
) -> None:
    lines = ["writer    stores", "reader-0  raises EOFError: ", "writer    goes on"]
    violation = Violation("lost", "reader-0 got 1 of 3 messages")
    explored = Explored([_searched(7)], violation, [0, 2], lines, 7)
    case_run, _ = _trial(explored, tmp_path)
    simulated = Simulated(memory)
    outcome = case_run.judge(
        lambda case_run: search(case_run, _scenario(simulated), [Ask("delays")])
    )
    assert (outcome.outcome, outcome.kind) == ("violated", "lost")
    assert outcome.cause.startswith("model only: ") == model_only
    assert outcome.evidence == lines[:2]
    assert outcome.replay is not None
    kept = load(Path(outcome.replay))
    assert (kept.target, kept.simulated) == ("t:x", Simulated(memory, schedule=[0, 2]))
    assert "# writer    stores\n" in Path(outcome.replay).read_text()


def test_a_doubt_makes_it_inconclusive() -> None:
    case_run, _ = _trial(Explored([_searched(7)], doubt="it did not replay"))
    search(case_run, _scenario(), [Ask("delays")])
    outcome = case_run.conclude()
    assert (outcome.outcome, outcome.cause) == ("inconclusive", "it did not replay")


def test_what_the_target_cannot_be_given_is_no_verdict() -> None:
    case_run, _ = _trial(Explored([], error="it took the overflow path"))
    search(case_run, _scenario(), [Ask("delays")])
    outcome = case_run.conclude()
    assert (outcome.outcome, outcome.runs) == ("inconclusive", 0)
    assert "overflow" in outcome.cause


def test_a_player_that_calls_nothing_leaves_it_unsupported() -> None:
    case_run = CaseRun("R5/x", None, seed=0, full=False, folder=None)
    with pytest.raises(Unsupported):
        search(case_run, _scenario(), [Ask("delays")])


def test_violated_ends_the_trial() -> None:
    case_run, _ = _trial(Explored([_searched(7)], Violation("hang", "nobody")))
    with pytest.raises(Violated):
        search(case_run, _scenario(), [Ask("delays")])


def test_messages_are_counted_over_all_sends() -> None:
    assert messages_of(_scenario()) == 3


def test_a_simulated_scenario_is_a_file_and_what_cannot_be_simulated_is_refused() -> None:
    scenario = _scenario()
    assert parse(dump(scenario), "x") == scenario
    scenario.steps.append(RingRead())
    with pytest.raises(BadUsage, match="not simulated; expected"):
        parse(dump(scenario), "x")
