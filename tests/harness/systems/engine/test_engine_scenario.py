"""Scenarios of engines: they survive their files, and what cannot be played is told."""

from __future__ import annotations

from typing import Any

import pytest

from killpoint import scenario as script
from killpoint.errors import BadUsage
from killpoint.scenario import Fault, Point, Scenario, dump, parse
from killpoint.systems.engine.cases.faults import soak
from killpoint.systems.engine.steps import Ask, Client
from killpoint.targets.engine_protocol import EngineShape
from killpoint.targets.protocol import PipeShape

STEPS: list[Any] = [
    script.EngineStart(timeout=9.0),
    script.Load(rate=3.5, prompts=4, cancel_every=3, large_every=5, within=7.0),
    script.ContinueLoad(1.5),
    Fault("kill", "core-1/worker-0"),
    script.WaitHealthy(within=8.0),
    script.WaitIdle(within=4.0),
    script.ReferenceAnswers(),
    script.EngineStop(),
    script.Exit(("front-end",)),
]
SHAPE = EngineShape(tensor_parallel=2, data_parallel=2, prefill=1, blocks=32, restart=False)


def scene(*steps: Any, **more: Any) -> Scenario:
    return Scenario("L1/x", ["L1"], list(steps), engine=more.pop("engine", SHAPE), **more)


def complaint(*steps: Any, **more: Any) -> str:
    with pytest.raises(BadUsage) as caught:
        parse(dump(scene(*steps, **more)), "f.toml")
    return str(caught.value)


def test_a_scenario_of_an_engine_survives_its_file() -> None:
    whole = scene(*STEPS)
    assert parse(dump(whole), "f") == whole


def test_its_roles_are_the_front_end_and_every_process_that_it_starts() -> None:
    assert scene().roles() == [
        *["front-end", "coordinator", "core-0", "core-0/worker-0", "core-0/worker-1"],
        *["core-1", "core-1/worker-0", "core-1/worker-1"],
        *["prefill-0", "prefill-0/worker-0", "prefill-0/worker-1"],
    ]
    assert EngineShape().parts() == ["core-0", "core-0/worker-0"]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (script.Make(), "make of an engine"),
        (script.Exit(("core-0",)), "exit of 'core-0'; expected: front-end"),
        (Fault("hold", "core-0"), "expected one of: kill, stop, continue"),
        (Fault("stop", "front-end"), "expected one of: kill, exit"),
        (Fault("kill", "core-7"), "no role 'core-7'"),
        (Fault("kill", "core-0", Point("call", line=1)), "expected a fault at once"),
        (script.Load(), "a second load"),
        (script.Burst([Client([Ask()])]), "a burst beside a load"),
    ],
)
def test_what_an_engine_cannot_be_asked_is_told_with_its_line(step: Any, words: str) -> None:
    text = complaint(script.Load(), step)
    assert words in text
    assert text.startswith("f.toml:")


def test_what_does_not_go_with_an_engine_is_told() -> None:
    assert "expected a table [engine]" in complaint(script.Load(), engine=None)
    assert "beside an engine" in complaint(pipe=PipeShape())


def test_a_soak_kills_every_kind_of_process_and_can_be_told_again() -> None:
    once, again = (soak("E3/soak", 3, 8, SHAPE) for _ in range(2))
    assert once == again != soak("E3/soak", 4, 8, SHAPE)
    killed = [step.role for step in once.steps if isinstance(step, Fault)]
    kinds = [part.split("/")[-1].rsplit("-", 1)[0] for part in killed]
    assert sorted(kinds) == sorted(["coordinator", "core", "prefill", "worker"] * 2)
