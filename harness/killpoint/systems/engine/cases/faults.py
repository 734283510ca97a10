"""Cases of faults in an engine: it survives them, and reports its health as it is (E3, E4)."""

from __future__ import annotations

import random

import msgspec

from killpoint.case import Case
from killpoint.scenario import AnyStep, Fault, Scenario
from killpoint.search.case_run import CaseRun
from killpoint.systems.engine.cases.builders import (
    NEEDS,
    STOP_AND_COMPARE,
    WAIT_AND_STOP,
    engine_case,
    engine_scenario,
    keep_load,
    kill_and_recover,
    start_with_load,
    wait_recovered,
)
from killpoint.targets.engine_protocol import EngineShape

BRIEF = EngineShape(prefill=1)
WHOLE = EngineShape(data_parallel=2, prefill=1)
"""The engines of a soak: a sample of it, and the soak itself."""
_KILLS_IN_FULL = 150
"""Kills in a soak of ten minutes."""


def soak(id: str, seed: int, kills: int, shape: EngineShape) -> Scenario:
    """Steady load, while one part after another is killed, and comes back.

    Kinds take turns, so that no soak leaves one out; which part of its kind, chance says.
    """
    chance = random.Random(f"soak {seed}")
    kinds: dict[str, list[str]] = {}
    for part in shape.parts():
        replica, _, worker = part.partition("/")
        kind = "worker" if worker else replica.rsplit("-", 1)[0]
        kinds.setdefault(kind, []).append(part)
    turns: list[str] = []
    while len(turns) < kills:
        turns += chance.sample(sorted(kinds), len(kinds))
    steps: list[AnyStep] = [
        *start_with_load(rate=6.0, together=3, max_tokens=64),
        *keep_load(2.0, 2),
    ]
    for kind in turns[:kills]:
        steps += kill_and_recover(chance.choice(kinds[kind]))
    found = engine_scenario(id, *steps, *STOP_AND_COMPARE, seed=seed, judges=("E1", "E2", "E4"))
    return msgspec.structs.replace(found, engine=shape)


def _soak(case_run: CaseRun) -> None:
    if case_run.full:
        case_run.play(soak("E3/soak", case_run.seed, _KILLS_IN_FULL, WHOLE))
    else:
        case_run.play(soak("E3/soak", case_run.seed, 1, BRIEF))


_SURVIVED = (
    engine_case(
        "E3/one-of-two",
        "the coordinator is killed under load, then one of two replicas",
        *[
            *start_with_load(rate=6.0, together=3, max_tokens=64),
            *keep_load(2.0, 2),
            *kill_and_recover("coordinator"),
            *kill_and_recover("core-1"),
        ],
        *WAIT_AND_STOP,
        data_parallel=2,
    ),
    Case(
        "E3/soak",
        "a worker, a core, one that prefills, the coordinator: one after another is killed, in an"
        " order by chance; requests, tokens and health are judged, too",
        _soak,
        NEEDS,
    ),
)

_ON = Fault("continue", "core-0")
_ON_WORKER = Fault("continue", "core-0/worker-0")

_TOLD = (
    engine_case(
        "E4/stopped-worker",
        "a worker of the only core is stopped for a while",
        *[
            *start_with_load(rate=6.0),
            *keep_load(1.0),
            Fault("stop", "core-0/worker-0"),
            *keep_load(4.5),
        ],
        *[_ON_WORKER, *keep_load(5.0), *WAIT_AND_STOP],
        step_timeout=30.0,
    ),
    engine_case(
        "E4/stopped-then-killed",
        "the only core is stopped for a while, then killed: not ready until there is another one",
        *[
            *start_with_load(rate=6.0),
            *keep_load(1.0),
            Fault("stop", "core-0"),
            *keep_load(4.5),
            _ON,
            *keep_load(5.0),
        ],
        *[Fault("kill", "core-0"), *wait_recovered(1.0), *WAIT_AND_STOP],
        step_timeout=30.0,
    ),
)

_LEFT = (
    engine_case(
        "L1/engine-front-end-killed",
        "the front end is killed under load: its engine goes with it",
        *[*start_with_load(), *keep_load(1.0), Fault("kill", "front-end")],
    ),
)

CASES: tuple[Case, ...] = (*reversed(_TOLD), *_SURVIVED, *_LEFT)
"""The longest first: they mostly wait."""
