"""Checks for well-formed pipe scenarios that cannot be played."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from killpoint.scenario.scenario import Scenario
from killpoint.scenario.steps import (
    Attack,
    Count,
    Exit,
    Fault,
    MeasureMemory,
    Pause,
    ProbeExposure,
    Retry,
    Wait,
    WaitBlocked,
)
from killpoint.scenario_errors import Place
from killpoint.systems.pipe.steps import CarrierVerb, PipeStep, PipeVerb
from killpoint.systems.pool.validate import tag

_OTHERS = (
    Retry,
    Count,
    Exit,
    Fault,
    Attack,
    ProbeExposure,
    Pause,
    WaitBlocked,
    Wait,
    MeasureMemory,
)
_BY_A_CARRIER = ("kill", "stop", "raise", "hold", "exit")
"""Faults at a point of one of the target's own threads."""


def unplayable_pipe(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """Yield the place and the text of each reason why the scenario cannot be played."""
    if scenario.pipe is None:
        for index, step in enumerate(scenario.steps):
            if isinstance(step, PipeStep):
                what = f"{tag(step)} without a pipe; expected a table [pipe]"
                yield ["steps", index], what
        return
    for field in ("group", "pool", "simulated"):
        if getattr(scenario, field) is not None:
            yield [field], f"a {field} beside a pipe; expected one of the two"
    if scenario.namespaces:
        yield ["namespaces"], "namespaces beside a pipe; expected none"
    for index, step in enumerate(scenario.steps):
        if not isinstance(step, (*_OTHERS, *get_args(PipeStep))):
            yield ["steps", index], f"{tag(step)} of a pipe; expected a pipe's steps"
        elif isinstance(step, Fault | Count) and step.at is not None:
            verbs = (*get_args(PipeVerb), *get_args(CarrierVerb))
            if step.at.op not in verbs:
                what = f"{step.at.op} of {step.role!r}; expected one of: {', '.join(verbs)}"
                yield ["steps", index, "at", "op"], what
            elif _not_by_a_carrier(step):
                what = "this fault of a carrying thread"
                able = ", ".join(_BY_A_CARRIER)
                yield ["steps", index, "fault"], f"{what}; expected one of: {able}"


def _not_by_a_carrier(step: Fault | Count) -> bool:
    if not isinstance(step, Fault) or step.at is None or step.at.op != "carry":
        return False
    return step.fault not in _BY_A_CARRIER
