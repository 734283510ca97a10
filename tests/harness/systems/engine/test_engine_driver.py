"""The front end of an engine, on real processes: what it logs, and what is done to its parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killpoint.history.event import Event
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import (
    ContinueLoad,
    EngineStart,
    EngineStop,
    Fault,
    Load,
    ReferenceAnswers,
    Scenario,
    Wait,
    WaitHealthy,
    WaitIdle,
)
from killpoint.targets.engine_protocol import EngineShape

EXAMPLES = Path(__file__).parents[3] / "examples"
UP = [EngineStart(timeout=20.0), Wait(within=30.0)]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("socket_engine:EngineTarget") as made:
            yield made


def played(stage: Stage, *steps: Any, **shape: Any) -> Play:
    scenario = Scenario("E1/x", ["E1"], [*UP, *steps], engine=EngineShape(**shape))
    play = stage.play(scenario)
    stage.forget(play)
    assert play.stalled == ""
    assert play.ledger.empty(), play.ledger.words()
    return play


def of(play: Play, kind: str, role: str = "front-end") -> list[Event]:
    return list(play.history.of(kind, role=role))


def test_requests_come_steadily_and_each_has_one_answer_with_the_models_tokens(
    stage: Stage,
) -> None:
    load = Load(rate=40.0, prompts=3, max_tokens=6)
    play = played(
        stage, load, ContinueLoad(0.5), WaitIdle(5.0), ReferenceAnswers(), Wait(within=20.0)
    )
    asked, answers = of(play, "request"), of(play, "answer")
    assert len(asked) >= 15
    assert sorted(e.number("n") for e in answers) == [e.number("n") for e in asked]
    alone: dict[int, Any] = {e.number("key"): e.data["prefixes"] for e in of(play, "alone")}
    for answer in answers:
        assert answer.text("digest") == alone[answer.number("key")][answer.number("count")]
    assert of(play, "calm")[0].data["yes"] is True


def test_its_parts_are_known_and_one_that_comes_again_takes_its_place(stage: Stage) -> None:
    kill = Fault("kill", "core-0/worker-0")
    play = played(stage, Load(rate=20.0), ContinueLoad(0.3), Wait(), kill, WaitHealthy(9.0), Wait())
    here = [e.text("target") for e in of(play, "part-here", "director")]
    assert here[:2] == ["core-0", "core-0/worker-0"]
    assert here.count("core-0/worker-0") == 2
    gone = [(e.text("target"), e.number("signal")) for e in of(play, "gone", "director")]
    assert ("core-0/worker-0", 9) in gone
    assert of(play, "whole")[0].data["yes"] is True
    looks = of(play, "looked")
    assert {e.data["alive"] for e in looks} == {True}
    assert looks[-1].number("replicas") == 1


def test_requests_come_together_and_a_strike_waits_for_some_that_are_answered(
    stage: Stage,
) -> None:
    load = Load(rate=15.0, together=3, max_tokens=120)
    play = played(
        stage, load, ContinueLoad(0.2, 3), Wait(), Fault("kill", "core-0"), WaitIdle(9.0), Wait()
    )
    struck = of(play, "fault", "director")[0].t
    began = {e.number("n") for e in of(play, "first") if e.t < struck}
    ended = {e.number("n") for e in of(play, "answer") if e.t < struck}
    assert began - ended
    times = [e.t for e in of(play, "request")]
    assert max(times[2] - times[0], times[5] - times[3]) < min(times[3] - times[2], 50_000_000)


def test_what_is_stopped_is_not_whole_until_it_goes_on(stage: Stage) -> None:
    stop, on = Fault("stop", "core-0"), Fault("continue", "core-0")
    load = Load(rate=20.0, look=0.05)
    play = played(stage, load, stop, WaitHealthy(0.4), Wait(), on, WaitHealthy(5.0), Wait())
    assert [e.data["yes"] for e in of(play, "whole")] == [False, True]


def test_a_stop_under_load_ends_every_request(stage: Stage) -> None:
    load = Load(rate=60.0, max_tokens=400, cancel_every=3, large_every=4)
    play = played(stage, load, ContinueLoad(0.5), EngineStop(), Wait(within=20.0))
    words = [e.text("outcome") for e in of(play, "answer")]
    assert len(words) == len(of(play, "request"))
    assert {"closed", "refused"} <= set(words)
    assert of(play, "cancelled")


def test_a_front_end_that_is_killed_takes_its_engine_along(stage: Stage) -> None:
    play = played(stage, Load(), ContinueLoad(0.3), Wait(), Fault("kill", "front-end"))
    assert {e.text("target") for e in of(play, "gone", "director")} == {"core-0", "core-0/worker-0"}


def test_an_engine_that_cannot_be_had_is_unsupported(stage: Stage) -> None:
    play = played(stage, prefill=1)
    assert of(play, "end")[0].text("outcome") == "unsupported"
