"""Checks for well-formed coordinator scenarios that cannot be played."""

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
from killpoint.systems.coordinator.steps import (
    BreakWave,
    CoordinatorStep,
    EngineLie,
    Flood,
    Forge,
    FrontEndLie,
    ReportCounts,
    Request,
    Scale,
    WaitNews,
)
from killpoint.systems.pool.validate import tag

_OTHERS = (Exit, Fault, Attack, ProbeExposure, Pause, Wait, MeasureMemory)
_FROM_OUTSIDE = ("kill", "stop", "continue", "sigterm", "sigint", "jump-clock")
"""Faults of the coordinator's own process, which takes no orders."""
_FAULTS = (*_FROM_OUTSIDE, "exit", "starve", "cut", "heal")
_OF_A_RANK = ("without", "counts", "gone", "back", "ranks")
_OF_ENGINES = (ReportCounts, Request, BreakWave, Flood)


def unplayable_coordinator(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """Yield the place and the text of each reason why the scenario cannot be played."""
    if scenario.coordinator is None:
        for index, step in enumerate(scenario.steps):
            if isinstance(step, CoordinatorStep):
                what = f"{tag(step)} without a coordinator; expected a table [coordinator]"
                yield ["steps", index], what
        return
    for field in ("group", "pool", "pipe", "simulated"):
        if getattr(scenario, field) is not None:
            yield [field], f"a {field} beside a coordinator; expected one of the two"
    for index, step in enumerate(scenario.steps):
        for place, what in _bad_step(scenario, step):
            yield ["steps", index, *place], what


def _bad_step(scenario: Scenario, step: AnyStep) -> Iterator[tuple[Place, str]]:
    if not isinstance(step, (*_OTHERS, *get_args(CoordinatorStep))):
        yield [], f"{tag(step)} of a coordinator; expected a coordinator's steps"
        return
    if isinstance(step, Fault):
        yield from _bad_fault(scenario, step)
    names = scenario.named(getattr(step, "roles", ()) or (getattr(step, "role", "parent"),))
    own = isinstance(step, Exit | CoordinatorStep)
    if own and "coordinator" in names and getattr(step, "roles", ()) != ("all",):
        yield ["roles"], f"{tag(step)} of 'coordinator', which takes no orders"
    if isinstance(step, _OF_ENGINES) and not {*names} <= {*scenario.engines()}:
        yield ["roles"], f"{tag(step)} of what is no engine; expected engines"
    if isinstance(step, Scale) and step.role in scenario.engines():
        yield ["role"], f"scale of {step.role!r}; expected a front end"
    if isinstance(step, Forge):
        lies = get_args(EngineLie if step.role in scenario.engines() else FrontEndLie)
        if step.lie not in lies:
            yield ["lie"], f"{step.lie} of {step.role!r}; expected one of: {', '.join(lies)}"
    if isinstance(step, WaitNews) and step.what in _OF_A_RANK and step.rank is None:
        yield ["rank"], f"to hear {step.what} of nobody; expected `rank`"


def _bad_fault(scenario: Scenario, step: Fault) -> Iterator[tuple[Place, str]]:
    able = _FROM_OUTSIDE if step.role == "coordinator" else _FAULTS
    if step.at is not None:
        yield ["at"], "a point in a coordinator's play; expected none"
    elif step.fault not in able:
        yield ["fault"], f"{step.fault} of {step.role!r}; expected one of: {', '.join(able)}"
    elif step.fault in ("cut", "heal") and not scenario.namespaces:
        yield ["fault"], f"{step.fault} without hosts; expected `namespaces = true`"
