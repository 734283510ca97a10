"""Cases of the pipe's operations, struck at any of their lines, and of its own threads."""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.case import Case
from killpoint.scenario import FaultName, Verb
from killpoint.search.case_run import CaseRun
from killpoint.search.operations import Operation
from killpoint.systems.pipe.operations import CARRIERS, PIPE
from killpoint.systems.pipe.sweeps import sweep_pipe


def _swept(
    id: str, summary: str, operations: Sequence[Operation], samples: int, fault: FaultName
) -> Case:
    def run(case_run: CaseRun) -> None:
        sweep_pipe(case_run, operations, samples, fault)

    return Case(id, summary, run, frozenset({"pipe", "points"}))


def _of(*verbs: Verb) -> tuple[Operation, ...]:
    return tuple(each for each in PIPE if each.verb in verbs)


CASES: tuple[Case, ...] = (
    _swept(
        "K1/stopped-anywhere",
        "a rank is stopped at lines of any of its calls, and goes on",
        PIPE,
        6,
        "stop",
    ),
    _swept(
        "K1/carrier-stopped-anywhere",
        "a rank is stopped while one of the pipe's own threads is at any of its lines",
        CARRIERS,
        3,
        "stop",
    ),
    _swept(
        "K3/exception-in-a-carrier",
        "an exception at lines of the pipe's own threads",
        CARRIERS,
        6,
        "raise",
    ),
    _swept(
        "K4/killed-in-any-call",
        "SIGKILL at lines of each rank's sends, receives and closes",
        _of("pipe-send", "pipe-receive", "pipe-close"),
        6,
        "kill",
    ),
    _swept(
        "K4/carrier-killed-anywhere",
        "SIGKILL while one of the pipe's own threads is at any of its lines",
        CARRIERS,
        6,
        "kill",
    ),
    _swept(
        "K4/killed-in-the-making",
        "SIGKILL at lines of the making of each end; the other has a deadline",
        _of("pipe-open"),
        3,
        "kill",
    ),
)
