"""Cases at pages: the writer is held inside the copy of a large message, at an exact page (R2)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Fault,
    FaultName,
    Message,
    Pause,
    Point,
    Receive,
    Scenario,
    Send,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import count_places, ends_and
from killpoint.systems.queue.cases.builders import MIB, OPEN_QUEUE, queue_scenario

_SAMPLES = 6
_LOOKS = 0.05
"""Seconds that readers have to look at a message whose copy is held."""
_TOLD = 0.5
_ROUNDS = 2
"""Rounds before: the ring's slots have all been used, and hold other bytes."""


def around_copy(id: str, fault: FaultName, step: AnyStep) -> Scenario:
    """The scenario of a fault in a copy, around the step that declares it (or counts)."""
    steps: list[AnyStep] = [*OPEN_QUEUE]
    for _ in range(_ROUNDS):
        steps += [_large(2), Wait(("writer",)), Receive(2, timeout=10.0), Wait(within=20.0)]
    steps += [step, _large(1), Wait(("writer",))]  # nobody else stores until it is held
    if fault == "stop":
        steps += [Receive(1, timeout=10.0), Pause(_LOOKS), Fault("continue", "writer")]
        steps += [_large(2), Receive(2, timeout=10.0), Wait(within=20.0)]
    else:
        steps += [Receive(2, timeout=_TOLD), Wait(("readers",), within=5.0)]
    return queue_scenario(id, *steps, chunk_bytes=MIB + 4096, chunks=2)


def _large(count: int) -> Send:
    return Send([Message("array", MIB, repeat=count)], timeout=10.0, mutate=False)


def _strike(fault: FaultName) -> Case:
    id = f"R2/{'killed' if fault == 'kill' else 'stopped'}-inside-copy"

    def run(case_run: CaseRun) -> None:
        def around(step: AnyStep) -> Scenario:
            return around_copy(id, fault, step)

        def counted(step: AnyStep) -> Scenario:
            return around_copy(id, "stop", step)

        count = count_places(case_run, "writer", Point("send"), counted, "pages")
        for page in case_run.with_progress(ends_and(case_run, count, _SAMPLES)):
            case_run.play(around(Fault(fault, "writer", Point("send", page=page))))

    does = "dies there" if fault == "kill" else "is stopped there, and goes on"
    what = f"the writer is held at a page of shared memory that it is about to fill, and {does}"
    return Case(id, what, run, frozenset({"queue", "ring", "deadlines"}))


CASES: tuple[Case, ...] = (_strike("kill"), _strike("stop"))
"""Stores only: a reader's copy leaves shared memory as it is, and no page of it can be held."""
