"""Plays of a pool out of steps, and what their records hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from killpoint.history.event import Event
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import PoolStart, Scenario, Wait
from killpoint.targets.protocol import PoolShape

EXAMPLES = Path(__file__).parents[1] / "examples"
UP = [PoolStart(timeout=20.0), Wait(within=30.0)]


def played(stage: Stage, *steps: Any, workers: int = 2, **more: Any) -> Play:
    shape = PoolShape(workers, **{"grace": 0.2, **more.pop("shape", {})})
    play = stage.play(Scenario("W1/x", ["L1"], list(steps), pool=shape, **more))
    stage.forget(play)
    assert play.stalled == ""
    return play


def of(play: Play, kind: str, role: str | None = None) -> list[Event]:
    return list(play.history.of(kind, role=role))


def outcomes(play: Play, kind: str) -> list[str]:
    return [event.text("outcome") for event in of(play, kind, "executor")]
