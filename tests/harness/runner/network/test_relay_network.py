"""Faults of the network strike real plays through a relay, and are known to have struck."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killpoint.checkers import CHECKERS
from killpoint.ledger import Ledger
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import (
    Attach,
    Close,
    Fault,
    Make,
    Message,
    Pause,
    Ready,
    Receive,
    Scenario,
    Send,
    Wait,
    WaitBlocked,
)
from killpoint.search.case_run import CaseRun
from killpoint.targets.protocol import QueueShape

EXAMPLES = Path(__file__).parents[3] / "examples"
OPEN = [Make(), Attach(), Ready(timeout=10.0), Wait(within=15.0)]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("tcp_queue:TcpTarget") as made:
            yield made


def scene(*steps: Any, readers: int = 1, case: str = "Q18/x", host: str = "127.0.0.1") -> Scenario:
    shape = QueueShape(readers=readers, remote=readers, host=host)
    return Scenario(case, [case.split("/")[0]], [*OPEN, *steps], shape=shape)


def played(stage: Stage, *steps: Any, **more: Any) -> Play:
    play = stage.play(scene(*steps, **more))
    stage.forget(play)
    assert play.stalled == ""
    return play


def got(play: Play, reader: str = "reader-0") -> list[tuple[int, str]]:
    return [(e.number("seq"), e.text("outcome")) for e in play.history.of("got", role=reader)]


def told(play: Play, fault: str) -> dict[str, object]:
    """What the relay said of a fault, when it was done and at the end."""
    out: dict[str, object] = {}
    for event in play.history.of("relay"):
        out |= event.data if event.text("fault") == fault else {}
    return out


def kinds(play: Play, id: str = "Q18") -> list[str]:
    found = CHECKERS[id](play.scenario, play.history, play.ledger).violations
    return [violation.kind for violation in found]


def test_without_a_fault_of_the_network_there_is_no_relay(stage: Stage) -> None:
    play = played(stage, Send([Message()]), Receive(1, timeout=5.0), Wait(), case="Q1/x")
    assert got(play) == [(0, "ok")]
    assert play.history.first("relay") is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_what_is_sent_in_a_cut_arrives_after_the_heal(stage: Stage, host: str) -> None:
    steps = [Receive(2, timeout=5.0), WaitBlocked(("readers",)), Fault("cut", "reader-0")]
    steps += [Send([Message(repeat=2)]), Wait(("writer",)), Pause(0.2), Fault("heal", "reader-0")]
    play = played(stage, *steps, Wait(), host=host)
    assert got(play) == [(0, "ok"), (1, "ok")]
    heal = next(e for e in play.history.of("intent") if e.text("fault") == "heal")
    assert all(event.t > heal.t for event in play.history.of("got"))
    assert told(play, "cut")["met"] == 1
    assert int(str(told(play, "cut")["withheld"])) > 100
    assert kinds(play) == []


def test_a_cut_of_one_reader_leaves_the_other_alone(stage: Stage) -> None:
    steps = [Fault("cut", "reader-0"), Send([Message()]), Receive(1, ("reader-1",), timeout=5.0)]
    play = played(stage, *steps, Wait(("reader-1",)), Fault("heal", "reader-0"), readers=2)
    assert got(play, "reader-1") == [(0, "ok")]


def test_a_cut_that_lasts_and_is_not_told_is_a_violation(stage: Stage) -> None:
    steps = [Receive(1), WaitBlocked(("readers",)), Fault("cut", "reader-0", toward="role")]
    play = played(stage, *steps, Send([Message()]), Wait(within=0.3))
    assert kinds(play) == ["hang"]


def test_a_delay_is_felt_and_the_order_kept(stage: Stage) -> None:
    steps = [Fault("delay", "writer", pause=0.2), Receive(3, timeout=5.0)]
    play = played(stage, *steps, Send([Message(repeat=3)]), Wait())
    assert got(play) == [(0, "ok"), (1, "ok"), (2, "ok")]
    sent, arrived = play.history.first("sent"), play.history.first("got")
    assert sent is not None
    assert arrived is not None
    assert arrived.t - sent.t > 150_000_000
    assert kinds(play) == []


def test_a_reset_is_told_to_both_and_loses_what_is_on_its_way(stage: Stage) -> None:
    steps = [Receive(2), WaitBlocked(("readers",)), Fault("delay", "reader-0", pause=0.3)]
    steps += [Send([Message()]), Wait(("writer",)), Fault("reset", "reader-0")]
    play = played(stage, *steps, Wait(("readers",), within=5.0), Send([Message()]), Wait())
    assert got(play) == [(-1, "peer-died")]
    assert told(play, "reset")["met"] == 1
    assert kinds(play) == ["lost"]


def test_half_open_drops_one_direction_for_good(stage: Stage) -> None:
    half = Fault("half-open", "reader-0", toward="role")
    steps = [Receive(1, timeout=0.5), WaitBlocked(("readers",)), half, Send([Message()])]
    play = played(stage, *steps, Wait(), Fault("heal", "reader-0"), Receive(1, timeout=0.3), Wait())
    assert got(play) == [(-1, "timeout"), (-1, "timeout")]
    assert int(str(told(play, "half-open")["dropped"])) > 64


def test_a_fault_that_met_no_connection_has_not_struck(stage: Stage) -> None:
    play = played(stage, Close(), Wait(), Pause(0.2), Fault("reset", "reader-0"))
    assert play.unreached == ["reset of reader-0: no connection to strike"]
    case_run = CaseRun("Q18/x", Again(play), seed=0, full=False, folder=None)
    outcome = case_run.judge(lambda case_run: void(case_run.play(play.scenario)))
    assert (outcome.outcome, outcome.struck) == ("inconclusive", 0)
    assert "no connection to strike" in outcome.cause


def test_the_relay_is_no_leak_of_the_targets(stage: Stage) -> None:
    steps = [Fault("cut", "reader-0"), Fault("kill", "reader-0"), Fault("kill", "writer")]
    play = played(stage, *steps)
    assert play.ledger == Ledger(all_killed=True, waited=play.ledger.waited)


def test_a_target_that_shows_no_address_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    with Stage("pipe_queue:PipeTarget") as own:
        case_run = CaseRun("Q18/x", own, seed=0, full=False, folder=None)
        outcome = case_run.judge(
            lambda case_run: void(case_run.play(scene(Fault("cut", "reader-0"))))
        )
    assert (outcome.outcome, outcome.cause) == (
        "unsupported",
        "its handle shows no address to lead through a relay",
    )


class Again:
    """A player that gives a play that was given before."""

    def __init__(self, play: Play) -> None:
        self._play = play

    def play(self, _scenario: Scenario) -> Play:
        return self._play

    def forget(self, play: Play) -> None:
        """Nothing is kept."""


def void(_play: Play) -> None:
    """A case's run returns nothing."""
