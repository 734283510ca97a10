"""Cases of the pool's operations, struck at any of their lines."""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.case import Case
from killpoint.scenario import FaultName, Verb
from killpoint.search.case_run import CaseRun
from killpoint.search.operations import Operation
from killpoint.systems.pool.sweeps import EXECUTOR, WORKER, sweep_pool


def _swept(
    id: str, summary: str, operations: Sequence[Operation], samples: int, fault: FaultName
) -> Case:
    def run(case_run: CaseRun) -> None:
        sweep_pool(case_run, operations, samples, fault)

    return Case(id, summary, run, frozenset({"pool", "points"}))


def _of(*verbs: Verb) -> tuple[Operation, ...]:
    return tuple(each for each in EXECUTOR if each.verb in verbs)


CASES: tuple[Case, ...] = (
    _swept("W3/killed-anywhere", "SIGKILL at lines of a worker's own loop", WORKER, 4, "kill"),
    _swept(
        "W4/killed-anywhere", "SIGKILL at lines of the executor's operations", EXECUTOR, 4, "kill"
    ),
    _swept(
        "W5/executor-stopped-anywhere",
        "the executor is stopped at lines of its operations, and goes on",
        EXECUTOR,
        3,
        "stop",
    ),
    _swept(
        "W5/worker-stopped-anywhere",
        "a worker is stopped at lines of its own loop, and goes on",
        WORKER,
        2,
        "stop",
    ),
    _swept(
        "W3/exception-anywhere-in-a-worker",
        "an exception at lines of a worker's own loop: it serves on, or the pool has failed",
        WORKER,
        3,
        "raise",
    ),
    _swept(
        "W6/exception-in-a-call",
        "an exception at lines of the executor's calls",
        _of("call", "submit", "health"),
        4,
        "raise",
    ),
    _swept(
        "W10/exception-in-the-start",
        "an exception at lines of the executor's start; the next pool works",
        _of("pool-start"),
        3,
        "raise",
    ),
    _swept(
        "W5/exception-in-the-shutdown",
        "an exception at lines of the shutdown, which is then called again",
        _of("stop"),
        1,
        "raise",
    ),
)
