"""Scenarios of worker pools: they survive their files, and what cannot be played is told."""

from __future__ import annotations

from typing import Any

import pytest

from killpoint import scenario as script
from killpoint.errors import BadUsage
from killpoint.scenario import Fault, Point, Scenario, dump, parse
from killpoint.targets.protocol import PoolShape

STEPS: list[Any] = [
    Fault("hold", "worker-1", Point("work", name="replying-overflow", nth=2)),
    Fault("kill", "executor", Point("pool-start", line=9)),
    script.Count("worker-0", Point("serve")),
    script.PoolStart(timeout=9.0),
    script.Call("flood", times=3, size=1 << 20, rank=1, timeout=1.5, keep_on=True),
    script.Submit("native", rank=0),
    script.Results(count=1, newest_first=True),
    script.Health(timeout=2.0),
    script.WaitBlocked(("workers",)),
    script.PoolStop(),
    script.NextPool(),
    script.Press("ctrl-c"),
    script.Exit(("executor",)),
]
SHAPE = PoolShape(4, tensor=2, start="forkserver", in_flight=2, output_thread=True, grace=0.2)


def scene(*steps: Any, **more: Any) -> Scenario:
    return Scenario("L1/x", ["L1"], list(steps), pool=more.pop("pool", SHAPE), **more)


def complaint(*steps: Any, **more: Any) -> str:
    with pytest.raises(BadUsage) as caught:
        parse(dump(scene(*steps, **more)), "f.toml")
    return str(caught.value)


def test_a_scenario_of_a_pool_survives_its_file() -> None:
    whole = scene(*STEPS, terminal=True)
    assert parse(dump(whole), "f") == whole
    assert whole.roles() == ["executor", "worker-0", "worker-1", "worker-2", "worker-3"]
    assert whole.named(("workers",)) == whole.workers()


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (script.Make(), "make of a pool"),
        (script.Call(rank=4), "rank 4 of 4 workers"),
        (script.Exit(("worker-0",)), "exit of 'worker-0'; expected: executor"),
        (Fault("exit", "worker-0"), "expected one of: kill, stop, continue, sigterm, sigint"),
        (Fault("hold", "executor"), "a hold without a point"),
        (Fault("kill", "worker-9"), "no role 'worker-9'"),
        (Fault("kill", "worker-0", Point("work", name="asking")), "constructing, loading"),
        (Fault("kill", "executor", Point("work", name="native")), "asking, hearing"),
        (Fault("kill", "worker-0", Point("call", line=1)), "work, start, serve"),
        (script.Press("fg"), "expected `terminal = true`"),
    ],
)
def test_what_a_pool_cannot_be_asked_is_told_with_its_line(step: Any, words: str) -> None:
    text = complaint(script.PoolStart(), step)
    assert words in text
    assert text.startswith("f.toml:")


def test_what_does_not_go_with_a_pool_is_told() -> None:
    assert "a divisor" in complaint(pool=PoolShape(4, tensor=3))
    assert "expected a table [pool]" in complaint(script.PoolStart(), pool=None)
    assert "forked from the zygote" in complaint(terminal=True, start="spawn")
    assert "at least" in complaint(pool=PoolShape(0)) or ">= 1" in complaint(pool=PoolShape(0))
