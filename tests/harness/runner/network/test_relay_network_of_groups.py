"""Faults of the network strike members of a real group through a relay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killpoint.runner.stage import Play, Stage
from killpoint.scenario import (
    Barrier,
    Fault,
    Join,
    Message,
    Pause,
    ReceiveFrom,
    Scenario,
    SendTo,
    Wait,
    WaitBlocked,
)
from killpoint.targets.protocol import GroupShape

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("pipe_group:GroupTarget") as made:
            yield made


def played(stage: Stage, *steps: Any, host: str = "127.0.0.1", silence: float = 5.0) -> Play:
    group = GroupShape(ranks=2, host=host, silence=silence)
    play = stage.play(Scenario("G4/x", ["G4"], list(steps), group=group))
    stage.forget(play)
    assert play.stalled == ""
    return play


def took(play: Play, role: str) -> list[tuple[str, float]]:
    """How each receive of a rank ended, and after how many seconds."""
    ends = play.history.of("got-from", role=role)
    return [(e.text("outcome"), float(str(e.data["s"]))) for e in ends]


def relayed(play: Play, fault: str) -> dict[str, object]:
    out: dict[str, object] = {}
    for event in play.history.of("relay"):
        out |= event.data if event.text("fault") == fault else {}
    return out


JOINED = [Join(), Wait()]


def test_without_a_fault_of_the_network_no_rank_is_led_elsewhere(stage: Stage) -> None:
    play = played(stage, *JOINED, Barrier(timeout=5.0), Wait())
    assert play.history.first("relay") is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("way", [("rank-0", "rank-1"), ("rank-1", "rank-0")])
def test_an_object_waits_in_a_cut_for_the_heal(
    stage: Stage, way: tuple[str, str], host: str
) -> None:
    source, taker = way
    toward = "role" if taker == "rank-1" else "peer"
    play = played(
        stage,
        *JOINED,
        Fault("cut", "rank-1", toward=toward),
        SendTo(source, taker, [Message()]),
        ReceiveFrom((taker,), source, timeout=5.0),
        WaitBlocked((taker,)),
        Pause(0.3),
        Fault("heal", "rank-1"),
        Wait(),
        host=host,
    )
    ((outcome, seconds),) = took(play, taker)
    assert outcome == "ok"
    assert seconds > 0.3
    assert int(str(relayed(play, "heal")["withheld"])) > 0
    assert play.unreached == []


def test_a_half_open_connection_loses_what_goes_that_way(stage: Stage) -> None:
    play = played(
        stage,
        *JOINED,
        Fault("half-open", "rank-1", toward="role"),
        SendTo("rank-0", "rank-1", [Message()]),
        SendTo("rank-1", "rank-0", [Message()]),
        ReceiveFrom(("rank-0",), "rank-1", timeout=5.0),
        ReceiveFrom(("rank-1",), "rank-0", timeout=0.3),
        Wait(),
    )
    assert [took(play, role)[0][0] for role in ("rank-0", "rank-1")] == ["ok", "timeout"]
    assert int(str(relayed(play, "half-open")["dropped"])) > 0


def test_a_reset_reaches_the_rank_at_once(stage: Stage) -> None:
    play = played(
        stage,
        *JOINED,
        ReceiveFrom(("rank-1",), "rank-0", timeout=20.0),
        WaitBlocked(("rank-1",)),
        Fault("reset", "rank-1"),
        Wait(within=25.0),
        silence=20.0,
    )
    ((outcome, seconds),) = took(play, "rank-1")
    assert outcome == "peer-died"
    assert seconds < 10.0


def test_a_rank_that_comes_before_its_host_is_refused_until_the_host_listens(stage: Stage) -> None:
    """The example tries again after a refusal, and after nothing else."""
    play = played(
        stage,
        Join(("rank-1",), timeout=9.0),
        WaitBlocked(("rank-1",)),
        Join(("rank-0",), timeout=9.0),
        Wait(within=20.0),
        Fault("delay", "rank-1", pause=0.01),
        Barrier(timeout=5.0),
        Wait(),
    )
    joins = [e.text("outcome") for e in play.history.of("end") if e.text("op") == "join"]
    assert joins == ["ok", "ok"]
    assert relayed(play, "delay")["connections"] == 1


def test_a_silence_is_noted_only_for_a_target_that_is_told_it(stage: Stage) -> None:
    assert played(stage, *JOINED).history.first("silence") is None
    with Stage("refengine") as ours:
        found = played(ours, *JOINED).history.first("silence")
        assert found is not None
        assert found.data["seconds"] == 5.0
