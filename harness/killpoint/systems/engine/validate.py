"""Checks for well-formed engine scenarios that cannot be played."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from killpoint.scenario.scenario import Scenario
from killpoint.scenario.steps import (
    AnyStep,
    Attack,
    Exit,
    Fault,
    MeasureMemory,
    Pause,
    ProbeExposure,
    Wait,
)
from killpoint.scenario_errors import Place
from killpoint.systems.engine.steps import Burst, EngineStep, Load
from killpoint.systems.pool.validate import tag

_OTHERS = (Exit, Fault, Attack, ProbeExposure, Pause, Wait, MeasureMemory)
_OF_A_PART = ("kill", "stop", "continue")
"""Faults of a part, which takes no orders."""
_OF_THE_FRONT_END = ("kill", "exit")


def unplayable_engine(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """Yield the place and the text of each reason why the scenario cannot be played."""
    if scenario.engine is None:
        for index, step in enumerate(scenario.steps):
            if isinstance(step, EngineStep):
                what = f"{tag(step)} without an engine; expected a table [engine]"
                yield ["steps", index], what
        return
    for field in ("group", "pool", "pipe", "simulated"):
        if getattr(scenario, field) is not None:
            yield [field], f"a {field} beside an engine; expected one of the two"
    if scenario.namespaces:
        yield ["namespaces"], "namespaces beside an engine; expected none"
    loads = [index for index, step in enumerate(scenario.steps) if isinstance(step, Load)]
    for index in loads[1:]:
        yield ["steps", index], "a second load; expected one"
    for index, step in enumerate(scenario.steps):
        if loads and isinstance(step, Burst):
            yield ["steps", index], "a burst beside a load; expected one of the two"
    for index, step in enumerate(scenario.steps):
        for place, what in _bad_step(scenario, step):
            yield ["steps", index, *place], what


def _bad_step(scenario: Scenario, step: AnyStep) -> Iterator[tuple[Place, str]]:
    parts = scenario.parts()
    if not isinstance(step, (*_OTHERS, *get_args(EngineStep))):
        yield [], f"{tag(step)} of an engine; expected an engine's steps"
    elif isinstance(step, Exit):
        for role in scenario.named(step.roles):
            if role in parts:
                yield ["roles"], f"exit of {role!r}; expected: front-end"
    elif isinstance(step, Fault):
        if step.at is not None:
            yield ["at"], "a point in an engine; expected a fault at once"
        able = _OF_A_PART if step.role in parts else _OF_THE_FRONT_END
        if step.fault not in able:
            what = f"{step.fault} of {step.role!r}; expected one of: {', '.join(able)}"
            yield ["fault"], what
