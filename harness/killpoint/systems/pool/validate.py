"""Checks for well-formed worker-pool scenarios that cannot be played."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from killpoint.scenario.scenario import Scenario
from killpoint.scenario.steps import (
    AnyStep,
    Attack,
    Count,
    Drop,
    Exit,
    Fault,
    MeasureMemory,
    Pause,
    Point,
    ProbeExposure,
    Wait,
    WaitBlocked,
)
from killpoint.scenario_errors import Place
from killpoint.systems.pool.steps import (
    EXECUTOR_PHASES,
    WORKER_PHASES,
    Call,
    Execute,
    PoolStep,
    PoolVerb,
    Press,
    Submit,
    WorkerVerb,
)

_OTHERS = (Count, Drop, Exit, Fault, Attack, ProbeExposure, Pause, WaitBlocked, Wait, MeasureMemory)
_SENT = ("kill", "stop", "continue", "sigterm", "sigint")
"""Faults of a worker wherever it is; it takes no orders."""
_AT_POINTS = (*_SENT[:2], *_SENT[3:], "hold", "exit", "raise")
_BY_ITSELF = (Exit, Drop)


def unplayable_pool(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """Yield the place and the text of each reason why the scenario cannot be played."""
    pool = scenario.pool
    if scenario.terminal and (pool is None or scenario.start != "zygote"):
        place = "terminal" if pool is None else "start"
        yield [place], "a terminal is for the executor of a pool, forked from the zygote"
    if pool is None:
        for index, step in enumerate(scenario.steps):
            if isinstance(step, PoolStep):
                what = f"{tag(step)} without a pool; expected a table [pool]"
                yield ["steps", index], what
        return
    for field in ("group", "simulated"):
        if getattr(scenario, field) is not None:
            yield [field], f"a {field} beside a pool; expected one of the two"
    if scenario.namespaces:
        yield ["namespaces"], "namespaces beside a pool; expected none"
    if pool.tensor is not None and pool.workers % pool.tensor:
        what = f"{pool.workers} workers in rows of {pool.tensor}; expected a divisor of them"
        yield ["pool", "tensor"], what
    for index, step in enumerate(scenario.steps):
        for place, what in _bad_step(scenario, step):
            yield ["steps", index, *place], what


def _bad_step(scenario: Scenario, step: AnyStep) -> Iterator[tuple[Place, str]]:
    pool = scenario.pool
    if not isinstance(step, (*_OTHERS, *get_args(PoolStep))):
        yield [], f"{tag(step)} of a pool; expected a pool's steps"
    elif isinstance(step, Press) and not scenario.terminal:
        yield [], "press without a terminal; expected `terminal = true`"
    elif isinstance(step, Call | Submit) and pool and (step.rank or 0) >= pool.workers:
        yield ["rank"], f"rank {step.rank} of {pool.workers} workers; expected less"
    elif isinstance(step, _BY_ITSELF):
        for role in scenario.named(step.roles):
            if role in scenario.workers():
                yield ["roles"], f"{tag(step)} of {role!r}; expected: executor"
    elif isinstance(step, Execute) and pool is not None:
        if not pool.transfers:
            yield [], "execute of a pool without transfers; expected `transfers = true`"
        for field, named in (("sent", step.sent), ("received", step.received)):
            if len(named) != pool.workers:
                yield (
                    [field],
                    f"{len(named)} lists; expected one for each of {pool.workers} workers",
                )
    elif isinstance(step, Fault):
        yield from _bad_fault(scenario, step)
    elif isinstance(step, Count):
        yield from _bad_point(scenario, step.role, step.at)


def _bad_fault(scenario: Scenario, step: Fault) -> Iterator[tuple[Place, str]]:
    if step.at is not None:
        yield from _bad_point(scenario, step.role, step.at)
    if step.role not in scenario.workers():
        return
    able = _SENT if step.at is None else _AT_POINTS
    if step.fault not in able:
        where = "" if step.at is None else " at a point"
        what = f"{step.fault} of a worker{where}; expected one of: {', '.join(able)}"
        yield ["fault"], what


def _bad_point(scenario: Scenario, role: str, at: Point) -> Iterator[tuple[Place, str]]:
    worker = role in scenario.workers()
    phases = WORKER_PHASES if worker else EXECUTOR_PHASES
    verbs = get_args(WorkerVerb if worker else PoolVerb)
    if at.op == "work":
        if at.name not in phases:
            what = f"{role} at work without such a phase: {at.name!r}"
            yield ["at", "name"], f"{what}; expected one of: {', '.join(phases)}"
    elif at.op not in verbs:
        expected = ", ".join(["work", *verbs])
        yield ["at", "op"], f"{at.op} of {role!r}; expected one of: {expected}"
    elif at.name is not None:
        yield ["at", "name"], f"a name in {at.op}; expected op `work` for it, or a line"


def tag(step: AnyStep) -> str:
    """Return the tag by which a step is named in a file."""
    return str(step.__struct_config__.tag)
