"""Roles play a coordinator's parent and its peers, on real processes: what they log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from killpoint.history.event import Event
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import (
    Connect,
    CoordinatorStart,
    Disconnect,
    EndWave,
    Fault,
    Flood,
    Forge,
    ReportCounts,
    Request,
    Scale,
    Scenario,
    Wait,
    WaitNews,
)
from killpoint.targets.coordinator_protocol import CoordinatorShape

OPEN = [CoordinatorStart(timeout=30.0), Connect(), Wait(within=40.0)]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage("refengine") as made:
        yield made


def played(stage: Stage, *steps: Any, **shape: Any) -> Play:
    made = Scenario("C6/x", ["C6"], [*OPEN, *steps], coordinator=CoordinatorShape(**shape))
    play = stage.play(made)
    stage.forget(play)
    assert play.stalled == ""
    assert play.ledger.empty()
    return play


def of(play: Play, kind: str, role: str) -> list[Event]:
    return list(play.history.of(kind, role=role))


def test_peers_say_and_hear_and_the_parent_ends_what_it_started(stage: Stage) -> None:
    play = played(
        stage,
        Request(("engine-0",)),
        WaitNews(("engine-0",), "stepped"),
        ReportCounts("engine-1", (3, 1)),
        WaitNews(("front-end-0",), "counts", rank=1, counts=(3, 1)),
        Wait(),
        EndWave(("engine-0", "engine-1")),
        Forge("engine-0", "wrong-type", (7, 7)),
        ReportCounts("engine-0", (4, 1)),
        WaitNews(
            ("front-end-0",), "counts", rank=0, counts=(4, 1)
        ),  # so the lie was read before it
        Scale("front-end-0", 3),
        WaitNews(("front-end-0",), "ranks", rank=3),
        Wait(),
    )
    (start,) = of(play, "coordinator-started", "parent")
    (gone,) = of(play, "gone", "director")
    assert start.number("pid") == gone.number("pid")
    assert [e.data["n"] for e in of(play, "stepped", "engine-0")] == [0]
    assert [e.text("outcome") for e in play.history.of("hear-done")] == ["ok"] * 4
    assert [e.number("done") for e in of(play, "said", "engine-0")] == [-1, 0, -1]
    assert of(play, "lied", "engine-0")[0].data["counts"] == [7, 7]
    assert of(play, "coordinator-closed", "parent")[0].number("logged") > 0


def test_a_flood_is_counted_and_beside_it_words_are_heard(stage: Stage) -> None:
    play = played(
        stage,
        ReportCounts("engine-1", (5, 1)),
        Flood(("engine-1",), 0.3),
        WaitNews(("front-end-0",), "counts", rank=1, counts=(5, 1)),
        Wait(),
    )
    assert of(play, "flooded", "engine-1")[0].number("count") > 100
    told = [e.data["counts"] for e in of(play, "heard", "front-end-0")]
    assert [[0, 0], [5, 1]] in told


def test_the_coordinators_clock_moves_and_no_other(stage: Stage) -> None:
    play = played(stage, Fault("jump-clock", "coordinator", hours=2.0), Wait())
    (jumped,) = play.history.of("jumped")
    assert jumped.role == "coordinator"
    assert jumped.data["s"] == pytest.approx(7200.0, abs=1)
    assert jumped.number("pid") == of(play, "coordinator-started", "parent")[0].number("pid")


def test_what_is_heard_in_vain_ends_the_play(stage: Stage) -> None:
    play = played(
        stage,
        WaitNews(("front-end-0",), "gone", rank=1, within=0.1),
        Wait(),
        Request(("engine-0",)),
        Wait(),
    )
    assert of(play, "hear-done", "front-end-0")[0].text("outcome") == "timeout"
    assert of(play, "request", "engine-0") == []


def test_its_death_is_told_by_its_parent_and_leaves_nothing(stage: Stage) -> None:
    play = played(stage, Fault("kill", "coordinator"), WaitNews(("engine-0",), "lost"), Wait())
    (gone,) = of(play, "gone", "director")
    assert gone.number("signal") == 9
    assert of(play, "coordinator-gone", "parent")


def test_the_end_of_a_wave_without_rank_0_is_said_by_the_lowest_rank_in_it(stage: Stage) -> None:
    play = played(
        stage,
        Disconnect(("engine-0",)),
        WaitNews(("front-end-0",), "gone", rank=0),
        Wait(),
        Request(("engine-2",)),
        WaitNews(("engine-1", "engine-2", "front-end-0"), "running"),
        Wait(),
        EndWave(("engine-2",), quiet=True),
        Wait(),
        EndWave(("engine-1",)),
        WaitNews(("front-end-0",), "paused"),
        Wait(),
        engines=3,
    )
    assert {e.text("outcome") for e in play.history.of("hear-done")} == {"ok"}
    assert [e.number("done") for e in of(play, "said", "engine-2")] == [-1]
    assert [e.number("done") for e in of(play, "said", "engine-1")] == [0]
