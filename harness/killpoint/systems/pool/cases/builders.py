"""Building blocks of plays of worker pools."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Call,
    Fault,
    PoolStart,
    PoolStop,
    ProbeExposure,
    Scenario,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.systems.pool.kill_matrix import Ending
from killpoint.targets.shapes import PoolShape

PoolStartMethod = Literal["default", "spawn", "fork", "forkserver"]

GRACE = 0.3
"""Seconds of grace: short, to tell a wait for a grace from one for something else."""
HANG_AFTER_S = 8.0
"""Seconds after which a call that should have ended is a hang."""
SHORT = 0.5
"""The deadline of a call that is to run into it."""
LONG = 8.0
"""The deadline of a call that is to go well."""
HEALTH = 10.0
"""The deadline of a question of health that is published (SPEC 5): some pools have no other."""
REACHES_POINT_WITHIN_S = 20.0
"""Seconds within which a worker should stand at its point, spawned ones on a busy machine, too."""
START_POOL: list[AnyStep] = [PoolStart(timeout=20.0), Wait(within=30.0)]
"""A pool is started, and every worker ready."""
STOP_POOL: list[AnyStep] = [PoolStop(), Wait(within=2 * GRACE + 12.0)]
"""The pool is shut down."""
TWO_CALLS: list[AnyStep] = [Call(times=2, timeout=LONG, keep_on=True), Wait(within=2 * LONG + 4.0)]
"""Two calls are made of it."""
OVERFLOW = 300_000
"""Bytes of a reply that does not fit into a queue's chunk of 64 KiB."""


def pool_scenario(
    id: str, *steps: AnyStep, expects: Ending | None = None, seed: int = 0, **shape: Any
) -> Scenario:
    """A scenario of a pool of two workers, judged by the invariant that its case belongs to."""
    return Scenario(
        case=id,
        judges=[id.split("/")[0]],
        steps=list(steps),
        pool=PoolShape(grace=shape.pop("grace", GRACE), **shape),
        expects=expects,
        seed=seed,
    )


def pool_case(
    id: str,
    summary: str,
    *steps: AnyStep,
    expects: Ending | None = None,
    restart: bool = False,
    **shape: Any,
) -> Case:
    """A case of one scenario."""

    def run(case_run: CaseRun) -> None:
        found = pool_scenario(id, *steps, expects=expects, seed=case_run.seed, **shape)
        case_run.play(msgspec.structs.replace(found, restart=restart))

    return Case(id, summary, run, needs(steps))


def forked_pool_case(
    id: str, summary: str, *steps: AnyStep, expects: Ending | None = None, **shape: Any
) -> Case:
    """The same with forked workers, which come quickest: for what is judged, they are all one."""
    return pool_case(id, summary, *steps, expects=expects, start="fork", **shape)


def needs(steps: tuple[AnyStep, ...]) -> frozenset[str]:
    """Return the capabilities that a target must have for these steps."""
    placed = any(isinstance(step, Fault) and step.at is not None for step in steps)
    return frozenset({"pool", *(["points"] if placed else [])})


PROBED: tuple[AnyStep, ...] = (
    ProbeExposure(("executor",)),
    *START_POOL,
    *TWO_CALLS,
    ProbeExposure(),
    *STOP_POOL,
)
"""The descriptors of all are seen, those of the executor before and after the start."""
