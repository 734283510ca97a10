"""Cases of every start method and of the pool that comes next (W9, W10)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Call,
    Fault,
    NextPool,
    Point,
    PoolStart,
    Wait,
    WaitBlocked,
)
from killpoint.systems.pool.cases.builders import (
    HANG_AFTER_S,
    PROBED,
    SHORT,
    START_POOL,
    STOP_POOL,
    TWO_CALLS,
    forked_pool_case,
    pool_case,
)

_NEXT: list[AnyStep] = [NextPool(timeout=20.0), Wait(within=30.0), *TWO_CALLS, *STOP_POOL]
_ENDED: list[AnyStep] = [Wait(within=HANG_AFTER_S)]
_HELD = Fault("hold", "worker-0", Point("work", name="computing"))

_METHODS = tuple(
    pool_case(f"W9/{name}", summary, *PROBED, start=start, workers=workers)
    for name, summary, start, workers in (
        ("default-start", "three workers, started as the pool would", "default", 3),
        ("spawn", "two workers, spawned", "spawn", 2),
        (
            "fork",
            "three workers, forked: each is born with copies of earlier ones' ends",
            "fork",
            3,
        ),
        ("forkserver", "two workers, from a fork server", "forkserver", 2),
        ("one-worker", "a single worker, forked", "fork", 1),
    )
)

_AFTER = (
    forked_pool_case(
        "W10/after-a-killed-worker",
        "a worker was killed inside a call",
        *[*START_POOL, Fault("kill", "worker-0", Point("work", name="computing")), Call("compute")],
        *[*_ENDED, *STOP_POOL, *_NEXT],
    ),
    forked_pool_case(
        "W10/after-a-failure-nobody-ended",
        "a worker was killed, and nobody told the pool to stop",
        *[*START_POOL, Fault("kill", "worker-1"), Call(), *_ENDED, *_NEXT],
    ),
    forked_pool_case(
        "W10/after-a-stopped-worker",
        "a worker was stopped, and the pool shut down",
        *[*START_POOL, Fault("stop", "worker-0"), Call(timeout=SHORT), *_ENDED, *STOP_POOL, *_NEXT],
    ),
    forked_pool_case(
        "W10/after-a-failed-start",
        "a worker's loading raised",
        *[Fault("raise", "worker-1", Point("work", name="loading")), PoolStart(timeout=20.0)],
        *[*_ENDED, *_NEXT],
    ),
    forked_pool_case(
        "W10/after-native-code",
        "a worker was in native code when the pool was shut down",
        *[*START_POOL, Fault("hold", "worker-0", Point("work", name="native"))],
        *[Call("native", timeout=SHORT), *_ENDED, *STOP_POOL, *_NEXT],
    ),
    forked_pool_case(
        "W10/after-an-interrupted-call",
        "the caller was interrupted while it waited",
        *[*START_POOL, _HELD, Call("compute"), WaitBlocked(("worker-0", "executor"))],
        *[
            Fault("interrupt", "executor"),
            *_ENDED,
            Fault("continue", "worker-0"),
            *STOP_POOL,
            *_NEXT,
        ],
    ),
)

CASES: tuple[Case, ...] = (*_METHODS, *_AFTER)
