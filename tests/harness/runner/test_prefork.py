"""Where no start is on trial, a target makes what its parts are forked from before the play."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from killpoint import scenario as script
from killpoint.runner.stage import Stage
from killpoint.scenario import AnyStep, Fault, Point, Scenario, Wait
from killpoint.systems.registry import system_of
from killpoint.targets.engine_protocol import EngineShape
from killpoint.targets.shapes import PoolShape

POOL: list[AnyStep] = [script.PoolStart(timeout=20.0), Wait(within=30.0), script.Call(timeout=9.0)]
STRUCK: list[AnyStep] = [Fault("kill", "worker-0", Point("start")), *POOL]
ENGINE: list[AnyStep] = [script.EngineStart(timeout=60.0), Wait(within=70.0)]


def pool(*steps: AnyStep, judge: str = "W2", start: Any = "default", **more: Any) -> Scenario:
    return Scenario(f"{judge}/x", [judge], list(steps), pool=PoolShape(2, start=start), **more)


@pytest.mark.parametrize(
    ("story", "before"),
    [
        (pool(*POOL), True),
        (pool(*POOL, judge="W10"), False),
        (pool(*POOL, judge="L1"), False),
        (pool(*POOL, start="spawn"), False),
        (pool(*STRUCK), False),
        (pool(POOL[0], Fault("kill", "executor"), *POOL[1:]), False),
        (pool(*POOL, umask=0), False),
        (pool(*POOL, terminal=True), False),
        (Scenario("E2/x", ["E2"], ENGINE, engine=EngineShape()), True),
        (Scenario("S2/x", ["S2"], ENGINE, engine=EngineShape()), False),
        (Scenario("Q1/x", ["Q1"], [script.Make(), Wait()]), False),
    ],
)
def test_it_is_made_before_where_a_start_is_neither_struck_nor_judged(
    story: Scenario, before: bool
) -> None:
    assert system_of(story).preforks(story) is before


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage("preforking:Told") as made:
        yield made


@pytest.mark.parametrize("judge", ["W2", "W7"])
def test_workers_are_forked_from_the_one_that_was_made(stage: Stage, judge: str) -> None:
    play = stage.play(pool(*POOL, script.PoolStop(), Wait(within=20.0), judge=judge))
    assert not play.stalled
    parents = {event.number("parent", 0) for event in play.history.of("worker-here")}
    made = play.folder / "preforked"
    assert made.exists() is (judge == "W2")
    if made.exists():
        assert parents == {int(made.read_text())}


def test_so_are_the_cores_of_an_engine(stage: Stage) -> None:
    shape = EngineShape(tensor_parallel=1)
    steps = [*ENGINE, script.EngineStop(), Wait(within=20.0)]
    play = stage.play(Scenario("E2/x", ["E2"], steps, engine=shape))
    assert not play.stalled
    made = play.folder / "preforked"
    assert (play.folder / "parent").read_text() == made.read_text()
    assert play.ledger.empty(), play.ledger.lines()
