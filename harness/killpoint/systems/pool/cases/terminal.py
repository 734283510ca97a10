"""Cases of a pool's program at a terminal: what keys do to it (W4), and to its service (W5)."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Call,
    Fault,
    Point,
    PoolStart,
    PoolStop,
    Press,
    Wait,
    WaitBlocked,
    WorkerPhase,
)
from killpoint.search.case_run import CaseRun
from killpoint.systems.pool.cases.builders import (
    HANG_AFTER_S,
    LONG,
    START_POOL,
    STOP_POOL,
    TWO_CALLS,
    needs,
    pool_scenario,
)
from killpoint.systems.pool.kill_matrix import Ending

_THERE: list[AnyStep] = [WaitBlocked(("worker-0",)), Press("ctrl-c")]
_ON: list[AnyStep] = [Fault("continue", "worker-0"), Wait(within=HANG_AFTER_S)]


def _hold(phase: WorkerPhase) -> Fault:
    return Fault("hold", "worker-0", Point("work", name=phase))


def _typed(id: str, summary: str, *steps: AnyStep, expects: Ending | None = None) -> Case:
    def run(case_run: CaseRun) -> None:
        found = pool_scenario(id, *steps, expects=expects, seed=case_run.seed)
        case_run.play(msgspec.structs.replace(found, terminal=True))

    return Case(id, summary, run, needs(steps))


CASES: tuple[Case, ...] = (
    _typed(
        "W4/ctrl-c",
        "Ctrl-C at the terminal between two calls; the program shuts its pool down and ends",
        *[*START_POOL, *TWO_CALLS, Press("ctrl-c"), Wait(within=HANG_AFTER_S)],
    ),
    _typed(
        "W4/ctrl-c-in-a-call",
        "Ctrl-C while a worker is inside its method",
        *[*START_POOL, _hold("computing"), Call("compute"), *_THERE, *_ON],
    ),
    _typed(
        "W4/ctrl-c-at-start-up",
        "Ctrl-C while a worker loads its model",
        *[_hold("loading"), PoolStart(timeout=20.0), *_THERE, *_ON],
    ),
    _typed(
        "W4/ctrl-c-at-shutdown",
        "Ctrl-C while a worker leaves",
        *[*START_POOL, _hold("leaving"), PoolStop(), *_THERE, *_ON],
    ),
    _typed(
        "W4/ctrl-c-twice",
        "a second Ctrl-C while the first one's shutdown is under way",
        *[
            *START_POOL,
            *TWO_CALLS,
            Fault("hold", "executor", Point("stop", line=3)),
            Press("ctrl-c"),
        ],
        *[WaitBlocked(("executor",)), Press("ctrl-c"), Wait(within=HANG_AFTER_S)],
    ),
    _typed(
        "W4/hang-up",
        "the terminal is taken away",
        *[*START_POOL, *TWO_CALLS, Press("hang-up"), Wait(within=HANG_AFTER_S)],
    ),
    _typed(
        "W5/ctrl-z-and-back",
        "the job is stopped by Ctrl-Z and brought back; its pool serves on",
        *[
            *START_POOL,
            *TWO_CALLS,
            Press("ctrl-z"),
            Press("fg"),
            Call(timeout=LONG),
            Wait(within=HANG_AFTER_S),
        ],
        *[*TWO_CALLS, *STOP_POOL],
        expects="unaffected",
    ),
)
