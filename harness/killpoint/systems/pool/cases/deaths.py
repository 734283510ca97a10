"""Cases of deaths in a worker pool: a worker's (W3), the executor's (W4), all of them (L1)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Call,
    Fault,
    Health,
    Method,
    Pause,
    Point,
    PoolStart,
    Results,
    Submit,
    Wait,
    WaitBlocked,
    WorkerPhase,
)
from killpoint.systems.pool.cases.builders import (
    HANG_AFTER_S,
    LONG,
    REACHES_POINT_WITHIN_S,
    START_POOL,
    STOP_POOL,
    TWO_CALLS,
    PoolStartMethod,
    pool_case,
)

_UNTIL_TOLD: list[AnyStep] = [Wait(within=HANG_AFTER_S)]
_TWO_SECONDS_AND_MORE = Pause(2.3)


def _at(phase: WorkerPhase) -> Point:
    return Point("work", name=phase)


def _killed_in_call(rank: int) -> list[AnyStep]:
    killed = Fault("kill", f"worker-{rank}", _at("computing"))
    return [*START_POOL, killed, Call("compute"), *_UNTIL_TOLD, *TWO_CALLS, *STOP_POOL]


_WORKERS = (
    pool_case(
        "W3/killed-during-call-without-deadline",
        "the caller waits without a deadline when a worker is killed inside its method",
        *_killed_in_call(0),
    ),
    pool_case(
        "W3/other-rank-killed-during-call",
        "the last rank is killed inside its method; nobody has called it alone",
        *_killed_in_call(1),
    ),
    pool_case(
        "W3/killed-while-idle",
        "a worker is killed while nothing is asked of it; then calls, and a question of health",
        *[*START_POOL, *TWO_CALLS, Fault("kill", "worker-1"), Call(), *_UNTIL_TOLD],
        *[Health(), *TWO_CALLS, *STOP_POOL],
    ),
    pool_case(
        "W3/callback-without-a-call",
        "a worker is killed, and nobody calls for more than 2 s",
        *[*START_POOL, Fault("kill", "worker-0"), _TWO_SECONDS_AND_MORE, Call(timeout=LONG)],
        *[Wait(within=HANG_AFTER_S), *STOP_POOL],
    ),
    pool_case(
        "W3/told-before-the-grace-is-over",
        "the pool's graces are longer than the 2 s in which callers must be told",
        *[*START_POOL, Fault("hold", "worker-1", _at("computing"))],
        *[Fault("kill", "worker-0", _at("computing")), Call("compute"), *_UNTIL_TOLD],
        *[Fault("continue", "worker-1"), *TWO_CALLS, *STOP_POOL],
        grace=3.0,
    ),
    pool_case(
        "W3/killed-with-futures-outstanding",
        "two calls were submitted when a worker is killed inside the first",
        *[*START_POOL, Fault("kill", "worker-0", _at("computing")), Submit("compute", times=2)],
        *[Results(), Wait(within=HANG_AFTER_S), *TWO_CALLS, *STOP_POOL],
        in_flight=2,
    ),
    pool_case(
        "W3/one-of-four-killed",
        "of four workers, one is killed inside a call",
        *[*START_POOL, Fault("kill", "worker-2", _at("computing")), Call("compute"), *_UNTIL_TOLD],
        *[*TWO_CALLS, *STOP_POOL],
        workers=4,
    ),
    pool_case(
        "W3/only-worker-killed",
        "a pool of one worker loses it",
        *[*START_POOL, Fault("kill", "worker-0", _at("computing")), Call("compute"), *_UNTIL_TOLD],
        *[*TWO_CALLS, *STOP_POOL],
        workers=1,
    ),
)


def _parent_killed(
    name: str, summary: str, phase: WorkerPhase, start: PoolStartMethod, method: Method = "compute"
) -> Case:
    """The executor is killed while its first worker stands in a phase."""
    hold = Fault("hold", "worker-0", _at(phase))
    there = [WaitBlocked(("worker-0",)), Fault("kill", "executor")]
    if phase in ("constructing", "loading"):
        there[0] = WaitBlocked(("worker-0",), within=REACHES_POINT_WITHIN_S)
        return pool_case(name, summary, hold, PoolStart(timeout=20.0), *there, start=start)
    return pool_case(name, summary, *START_POOL, hold, Call(method), *there, start=start)


_PARENTS = (
    pool_case(
        "W4/parent-killed",
        "the executor is killed between two calls",
        *[*START_POOL, *TWO_CALLS, Fault("kill", "executor")],
    ),
    pool_case(
        "W4/parent-killed-fork",
        "the executor of forked workers, which may hold each other's ends, is killed",
        *[*START_POOL, *TWO_CALLS, Fault("kill", "executor")],
        start="fork",
        workers=3,
    ),
    pool_case(
        "W4/parent-killed-spawn",
        "the executor of spawned workers is killed between two calls",
        *[*START_POOL, *TWO_CALLS, Fault("kill", "executor")],
        start="spawn",
    ),
    pool_case(
        "W4/parent-killed-forkserver",
        "the executor is killed; its workers' fork server outlives it",
        *[*START_POOL, *TWO_CALLS, Fault("kill", "executor")],
        start="forkserver",
    ),
    _parent_killed(
        "W4/parent-killed-while-loading",
        "the executor is killed while a worker loads its model",
        "loading",
        "default",
    ),
    _parent_killed(
        "W4/parent-killed-while-loading-fork",
        "the executor is killed while a forked worker loads its model",
        "loading",
        "fork",
    ),
    _parent_killed(
        "W4/parent-killed-while-loading-spawn",
        "the executor is killed while a spawned worker loads its model",
        "loading",
        "spawn",
    ),
    pool_case(
        "W4/parent-killed-while-one-waits",
        "one worker has loaded its model and waits in its handshake, the other one loads still;"
        " the executor is killed, and the loading one goes on",
        *[Fault("hold", "worker-0", _at("loading")), PoolStart(timeout=20.0)],
        *[WaitBlocked(("worker-0",), within=REACHES_POINT_WITHIN_S), Pause(1.0)],
        *[Fault("kill", "executor"), Fault("continue", "worker-0")],
        start="fork",
    ),
    _parent_killed(
        "W4/parent-killed-in-native-code",
        "the executor is killed while a worker is in native code and holds its interpreter",
        "native",
        "default",
        "native",
    ),
    _parent_killed(
        "W4/parent-killed-in-native-code-fork",
        "the executor is killed while a forked worker is in native code",
        "native",
        "fork",
        "native",
    ),
    _parent_killed(
        "W4/parent-killed-in-native-code-forkserver",
        "the executor is killed while a worker from a fork server is in native code",
        "native",
        "forkserver",
        "native",
    ),
)

_LEAKS = (
    pool_case(
        "L1/pool-clean-end", "an ordinary life of a pool", *START_POOL, *TWO_CALLS, *STOP_POOL
    ),
    pool_case(
        "L1/pool-killed-then-next-start",
        "every process of a pool is killed; the next pool starts",
        *START_POOL,
        *(Fault("kill", role) for role in ("executor", "worker-0", "worker-1")),
        restart=True,
    ),
)

CASES: tuple[Case, ...] = (*_WORKERS, *_PARENTS, *_LEAKS)
