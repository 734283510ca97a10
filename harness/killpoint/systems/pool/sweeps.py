"""Every operation of a worker pool, and stories of stops, deaths and exceptions at its lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from killpoint.scenario import (
    AnyStep,
    Call,
    Fault,
    FaultName,
    Health,
    NextPool,
    Pause,
    Point,
    PoolStart,
    PoolStop,
    Scenario,
    Submit,
    Verb,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import count_lines
from killpoint.search.operations import Operation
from killpoint.systems.pool.kill_matrix import Ending
from killpoint.targets.shapes import PoolShape

_LONG, _GIVEN = 8.0, 10.0
_STANDS = 0.05
"""Seconds that a stopped role stands."""
_SHAPE = PoolShape(start="fork", grace=0.3, in_flight=2)
"""Forked workers start fastest, and hold copies of all that their parent has open."""
_THREADED = msgspec.structs.replace(_SHAPE, output_thread=True)
_FULL = 40
"""Factor on the lines struck in a full sweep: there are thousands of them."""

_UP: list[AnyStep] = [PoolStart(timeout=20.0), Wait(within=30.0)]
_WORKS: list[AnyStep] = [Call(times=2, timeout=_LONG, keep_on=True), Wait(within=20.0)]
_DOWN: list[AnyStep] = [PoolStop(), Wait(within=15.0)]
_ENDED: list[AnyStep] = [Wait(within=_GIVEN)]


def _operation(
    name: str,
    role: str,
    verb: Verb,
    during: list[AnyStep],
    lead: list[AnyStep] | None = None,
    shape: PoolShape = _SHAPE,
) -> Operation:
    before = [*_UP, Call(timeout=_LONG), Wait(within=_GIVEN)] if lead is None else lead
    return Operation(name, role, verb, before, during, [*_WORKS, *_DOWN], pool=shape)


_CALLS: list[AnyStep] = [Call(times=2, timeout=_LONG)]
_FLOODS: list[AnyStep] = [Call("flood", size=300_000, timeout=_LONG)]

EXECUTOR: tuple[Operation, ...] = (
    _operation("start", "executor", "pool-start", [PoolStart(timeout=20.0)], []),
    _operation("call", "executor", "call", [Call(timeout=_LONG)]),
    _operation("call-overflow", "executor", "call", _FLOODS),
    _operation("submit", "executor", "submit", [Submit()]),
    _operation("health", "executor", "health", [Health(timeout=_LONG)]),
    _operation("stop", "executor", "stop", [PoolStop()]),
)
"""Operations of the executor. A future's result is waited for in code that no system owns."""

WORKER: tuple[Operation, ...] = (
    _operation("worker-starts", "worker-1", "start", [PoolStart(timeout=20.0)], []),
    _operation("worker-serves", "worker-0", "serve", _CALLS),
    _operation("worker-serves-overflow", "worker-1", "serve", _FLOODS),
    _operation("worker-serves-by-thread", "worker-1", "serve", _CALLS, shape=_THREADED),
)
"""Operations of the target's code in a worker around the harness's own methods."""

POOL: tuple[Operation, ...] = (*EXECUTOR, *WORKER)


def ending(operation: Operation, fault: FaultName) -> Ending:
    """Return the ending of an operation that a fault strikes anywhere."""
    if operation.role == "executor":
        if fault == "kill":
            return "workers-gone"
        if operation.verb == "stop":
            return "stops-in-time"
        if fault == "stop":
            return "unaffected"
        return "start-undone" if operation.verb == "pool-start" else "call-or-pool-fails"
    if fault == "kill":
        return "start-or-pool-fails"
    return "unaffected" if fault == "stop" else "fails-or-serves"


def around(operation: Operation, id: str, fault: Fault) -> Scenario:
    """The story of an operation that a fault strikes."""
    steps = [*operation.lead, fault, *operation.during]
    if fault.fault == "stop":
        steps += [Pause(_STANDS), Fault("continue", operation.role), Wait(within=20.0)]
        steps += operation.rest
    elif operation.role == "executor" and fault.fault == "kill":
        steps += _ENDED
    elif operation.role == "executor" and operation.verb == "pool-start":
        steps += [*_ENDED, NextPool(timeout=20.0), Wait(within=30.0), *_WORKS]
    else:
        steps += [*_ENDED, *operation.rest]
    found = operation.scenario(id, *steps)
    return msgspec.structs.replace(found, expects=ending(operation, fault.fault))


def _lines(
    case_run: CaseRun, operations: Sequence[Operation], samples: int
) -> Iterator[tuple[Operation, Point, bool]]:
    """Points in these operations: ``samples`` in all, many times as many under ``--full``."""
    if case_run.full:
        samples *= _FULL
    elif samples < len(operations):
        operations = case_run.random.sample(operations, samples)
    for index, operation in enumerate(operations):

        def counted(step: AnyStep, operation: Operation = operation) -> Scenario:
            return operation.plainly(case_run.outcome.id, step)

        at = Point(operation.verb, depth=case_run.depth)
        count = count_lines(case_run, operation.role, at, counted, plays=1)
        if operation.role != "executor":
            count //= 4  # of what a waiting worker looks at, another call may come to less
        share = samples * (index + 1) // len(operations) - samples * index // len(operations)
        edges = [count * part // share for part in range(share + 1)]
        stretches = [(low, high) for low, high in itertools.pairwise(edges) if low < high]
        for stretch in case_run.with_progress(stretches):
            line = case_run.random.randrange(*stretch)
            # The executor waits in each of its calls, and how often it looks about meanwhile, and
            # so how many lines it comes to, differs from play to play.
            may_miss = operation.role == "executor"
            yield operation, msgspec.structs.replace(at, line=line), may_miss


def sweep_pool(
    case_run: CaseRun, operations: Sequence[Operation], samples: int, fault: FaultName
) -> None:
    """Strike lines of these operations."""
    for operation, point, may_miss in _lines(case_run, operations, samples):
        story = around(operation, case_run.outcome.id, Fault(fault, operation.role, point))
        case_run.play(msgspec.structs.replace(story, seed=case_run.seed), may_miss=may_miss)
