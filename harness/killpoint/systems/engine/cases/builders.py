"""Building blocks of plays of engines."""

from __future__ import annotations

from typing import Any

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    ContinueLoad,
    EngineStart,
    EngineStop,
    Fault,
    Load,
    ReferenceAnswers,
    Scenario,
    Wait,
    WaitHealthy,
    WaitIdle,
)
from killpoint.search.case_run import CaseRun
from killpoint.targets.engine_protocol import EngineShape

STARTS_WITHIN = 90.0
"""Seconds: every replica imports its libraries, on a machine that may have two cores."""
BACK_WITHIN = 30.0
"""Seconds within which a replica that died is up again, beside the load."""
_COMING = 2
"""Requests that a death is to meet."""
NEEDS = frozenset({"engine"})


def start_with_load(**load: Any) -> list[AnyStep]:
    """The engine is started, and steady load begins."""
    start = EngineStart(timeout=STARTS_WITHIN)
    return [start, Wait(within=STARTS_WITHIN + 10.0), Load(**load), Wait()]


def keep_load(seconds: float, coming: int = 0) -> list[AnyStep]:
    """The load goes on."""
    return [ContinueLoad(seconds, coming), Wait(within=seconds + 10.0)]


def wait_recovered(then: float = 2.1) -> list[AnyStep]:
    """The load goes on until the engine is whole again, and for some more seconds."""
    return [WaitHealthy(BACK_WITHIN), Wait(within=BACK_WITHIN + 10.0), *keep_load(then, _COMING)]


def kill_and_recover(part: str, then: float = 2.1) -> list[AnyStep]:
    """A part is killed under load, and comes back."""
    return [Fault("kill", part), *wait_recovered(then)]


WAIT_IDLE: list[AnyStep] = [WaitIdle(30.0), Wait(within=40.0)]
"""No more requests come, and those that are open end."""
STOP_ENGINE: list[AnyStep] = [EngineStop(), Wait(within=30.0)]
WAIT_AND_STOP: list[AnyStep] = [*WAIT_IDLE, *STOP_ENGINE]
STOP_AND_COMPARE: list[AnyStep] = [*WAIT_AND_STOP, ReferenceAnswers(), Wait(within=60.0)]
"""The engine is shut down; then the model is run alone."""


def engine_scenario(
    id: str, *steps: AnyStep, seed: int = 0, judges: tuple[str, ...] = (), **shape: Any
) -> Scenario:
    """A scenario of an engine, judged by the invariant that its case belongs to."""
    mine = id.split("/")[0]
    return Scenario(id, [mine, *judges], list(steps), engine=EngineShape(**shape), seed=seed)


def engine_case(
    id: str, summary: str, *steps: AnyStep, judges: tuple[str, ...] = (), **shape: Any
) -> Case:
    """A case of one scenario."""

    def run(case_run: CaseRun) -> None:
        case_run.play(engine_scenario(id, *steps, judges=judges, seed=case_run.seed, **shape))

    return Case(id, summary, run, NEEDS)
