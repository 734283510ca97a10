"""Cases of a pool's service: states, replies, stalls, errors, futures (W1, W2, W5 to W8)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Call,
    Fault,
    Health,
    Method,
    Point,
    PoolStart,
    PoolStop,
    Results,
    Submit,
    Wait,
    WaitBlocked,
    WorkerPhase,
)
from killpoint.systems.pool.cases.builders import (
    HANG_AFTER_S,
    HEALTH,
    LONG,
    OVERFLOW,
    SHORT,
    START_POOL,
    STOP_POOL,
    TWO_CALLS,
    PoolStartMethod,
    forked_pool_case,
    pool_case,
)

_COMPUTING = Point("work", name="computing")
_HELD = Fault("hold", "worker-0", _COMPUTING)
_HELD_LAST = Fault("hold", "worker-1", _COMPUTING)
_ON, _ON_LAST = Fault("continue", "worker-0"), Fault("continue", "worker-1")
_ENDED: list[AnyStep] = [Wait(within=HANG_AFTER_S)]
_AFTER: list[AnyStep] = [Call(times=3, timeout=LONG, keep_on=True), Wait(within=30.0), *STOP_POOL]

_STATES = (
    forked_pool_case(
        "W1/plain-life",
        "a pool lives and is shut down",
        *START_POOL,
        *TWO_CALLS,
        Health(),
        *STOP_POOL,
    ),
    forked_pool_case(
        "W1/failed-then-stopped",
        "a worker is killed; then the pool is shut down, twice",
        *[
            *START_POOL,
            *TWO_CALLS,
            Fault("kill", "worker-0"),
            Call(),
            *_ENDED,
            *STOP_POOL,
            *STOP_POOL,
        ],
    ),
    forked_pool_case(
        "W1/stopped-before-a-call",
        "a pool is shut down that was never called",
        *[*START_POOL, PoolStop(), *_ENDED, PoolStop(), *_ENDED],
    ),
)

_REPLIES = (
    forked_pool_case(
        "W2/late-reply-after-timeout",
        "a worker answers a call whose deadline has passed; then come others",
        *[*START_POOL, _HELD, Call("compute", timeout=SHORT), *_ENDED, _ON, *_AFTER],
    ),
    forked_pool_case(
        "W2/late-reply-of-one-rank",
        "the one rank that is to answer does so after the call's deadline; then come others",
        *[*START_POOL, _HELD_LAST, Call("compute", timeout=SHORT, rank=1), *_ENDED, _ON_LAST],
        *[Call(rank=1, timeout=LONG), *_AFTER],
    ),
    forked_pool_case(
        "W2/late-reply-after-several-timeouts",
        "three calls run into their deadlines while one worker stands",
        *[
            *START_POOL,
            _HELD,
            Call("compute", timeout=SHORT),
            Call(times=2, timeout=SHORT, keep_on=True),
        ],
        *[*_ENDED, _ON, *_AFTER],
    ),
    forked_pool_case(
        "W2/after-a-failed-call",
        "every rank raises, and the caller has the first one's error",
        *[*START_POOL, Call("raise_error", times=2, timeout=LONG, keep_on=True), *_ENDED, *_AFTER],
    ),
    forked_pool_case(
        "W2/after-a-failure-of-one-rank",
        "one rank raises while the other answers later",
        *[
            *START_POOL,
            _HELD_LAST,
            Fault("raise", "worker-0", _COMPUTING),
            Call("compute", timeout=1.0),
        ],
        *[*_ENDED, _ON_LAST, *_AFTER],
    ),
    forked_pool_case(
        "W2/after-a-refused-call",
        "a request cannot be pickled",
        *[*START_POOL, Fault("raise", "executor", Point("work", name="asking"))],
        *[Call(timeout=LONG), *_ENDED, *_AFTER],
    ),
    forked_pool_case(
        "W2/after-an-interrupted-call",
        "the caller is interrupted while it waits; the answers come later",
        *[*START_POOL, _HELD, Call("compute", timeout=LONG), WaitBlocked(("worker-0", "executor"))],
        *[Fault("interrupt", "executor"), *_ENDED, _ON, *_AFTER],
    ),
    forked_pool_case(
        "W2/abandoned-future",
        "nobody asks for the result of a submitted call; then come others",
        *[*START_POOL, Submit("echo"), *_AFTER],
        in_flight=2,
    ),
)

_STALLS = (
    forked_pool_case(
        "W5/queue-full",
        "a worker is stopped while calls fill the broadcast queue",
        *[*START_POOL, Fault("stop", "worker-0"), Call(times=7, timeout=0.2, keep_on=True)],
        *[Wait(within=12.0), _ON, *TWO_CALLS, *STOP_POOL],
    ),
    forked_pool_case(
        "W5/stopped-worker",
        "a worker is stopped; a call runs into its deadline; it goes on",
        *[*START_POOL, *TWO_CALLS, Fault("stop", "worker-1"), Call(timeout=SHORT), *_ENDED],
        *[_ON_LAST, *TWO_CALLS, *STOP_POOL],
    ),
    forked_pool_case(
        "W5/health-of-a-stopped-worker",
        "a question of health has a deadline too",
        *[*START_POOL, Fault("stop", "worker-1"), Call(timeout=SHORT), Health(timeout=HEALTH)],
        *[Wait(within=HEALTH + HANG_AFTER_S)],
        *[_ON_LAST, *TWO_CALLS, *STOP_POOL],
    ),
    forked_pool_case(
        "W5/spinning-worker",
        "every worker is busy in Python for a minute; calls have deadlines",
        *[*START_POOL, Call("spin", timeout=SHORT), Call(timeout=SHORT), *_ENDED, *STOP_POOL],
    ),
    forked_pool_case(
        "W5/stopped-at-shutdown",
        "a worker is stopped, and the pool shut down",
        *[*START_POOL, *TWO_CALLS, Fault("stop", "worker-1"), *STOP_POOL],
        expects="stops-in-time",
    ),
    forked_pool_case(
        "W5/spinning-at-shutdown",
        "a worker is busy in Python for a minute, and the pool shut down",
        *[*START_POOL, Call("spin", timeout=SHORT), *_ENDED, *STOP_POOL],
        expects="stops-in-time",
    ),
    forked_pool_case(
        "W5/native-at-shutdown",
        "a worker is in native code and holds its interpreter, and the pool is shut down",
        *[*START_POOL, Fault("hold", "worker-0", Point("work", name="native"))],
        *[Call("native", timeout=SHORT), *_ENDED, *STOP_POOL],
        expects="stops-in-time",
    ),
    forked_pool_case(
        "W5/queue-full-at-shutdown",
        "a worker is stopped, the broadcast queue full, and the pool shut down",
        *[*START_POOL, Fault("stop", "worker-0"), Call(times=6, timeout=0.1, keep_on=True)],
        *[Wait(within=12.0), *STOP_POOL],
        expects="stops-in-time",
    ),
    forked_pool_case(
        "W5/start-with-a-deadline",
        "a worker stands while its model is loaded; the start has a deadline",
        *[Fault("stop", "worker-1", Point("work", name="loading")), PoolStart(timeout=2.0)],
        *_ENDED,
    ),
)


def _error(name: str, summary: str, method: Method, *, output_thread: bool = False) -> Case:
    """One failing call of all ranks, one of a single rank, and a pool that goes on."""
    ranks: list[AnyStep] = [Call(method, timeout=LONG), Call(method, rank=1, timeout=LONG)]
    steps = [*START_POOL, *ranks, Wait(within=20.0), *_AFTER]
    return forked_pool_case(name, summary, *steps, output_thread=output_thread)


_ERRORS = (
    _error("W6/method-raises", "a method raises on every rank", "raise_error"),
    _error("W6/unpicklable-reply", "what a method returns cannot be pickled", "unpicklable"),
    _error("W6/sys-exit", "a method calls sys.exit", "leave"),
    _error(
        "W6/error-in-output-thread",
        "replies cannot be pickled, in a thread of their own",
        "unpicklable",
        output_thread=True,
    ),
    forked_pool_case(
        "W6/flood",
        "replies larger than any chunk of the queue, from all ranks and from one",
        *[*START_POOL, Call("flood", size=OVERFLOW, times=2, timeout=LONG)],
        *[Call("flood", size=OVERFLOW, rank=1, timeout=LONG), Wait(within=20.0), *_AFTER],
        expects="unaffected",
    ),
    forked_pool_case(
        "W6/one-rank-raises",
        "the last rank raises where all reply, and where it alone does not",
        *[*START_POOL, Fault("raise", "worker-1", _COMPUTING), Call("compute", timeout=LONG)],
        *[Fault("raise", "worker-1", _COMPUTING)],
        *[Call("compute", rank=0, timeout=LONG), Wait(within=20.0), *_AFTER],
    ),
    forked_pool_case(
        "W6/sigterm-in-failing-method",
        "a worker whose method is about to raise gets SIGTERM, and obeys it",
        *[*START_POOL, Fault("sigterm", "worker-0", Point("work", name="replying"))],
        *[Call("unpicklable", timeout=LONG), *_ENDED, *TWO_CALLS, *STOP_POOL],
        expects="pool-fails",
    ),
)


def _failing(
    name: str, summary: str, worker: str, phase: WorkerPhase, start: PoolStartMethod = "default"
) -> Case:
    """A start in which one worker raises."""
    raised = Fault("raise", worker, Point("work", name=phase))
    return pool_case(name, summary, raised, PoolStart(timeout=20.0), *_ENDED, start=start)


_STARTS = (
    _failing("W7/raises-while-made", "a constructor raises", "worker-0", "constructing"),
    _failing("W7/raises-while-loading", "the last one's loading raises", "worker-1", "loading"),
    _failing(
        "W7/raises-spawned", "a spawned worker's loading raises", "worker-1", "loading", "spawn"
    ),
    _failing("W7/raises-forked", "a forked worker's loading raises", "worker-0", "loading", "fork"),
)

_FUTURES = (
    forked_pool_case(
        "W8/in-order",
        "five calls are submitted, two at a time, and their results asked for in order",
        *[*START_POOL, Submit(times=2), Results(), Submit(times=2), Results()],
        *[Submit("flood", size=OVERFLOW), Results(), Wait(within=20.0), *STOP_POOL],
        in_flight=2,
    ),
    forked_pool_case(
        "W8/newest-asked-first",
        "the result of the later call is asked for first",
        *[*START_POOL, Submit("compute", times=2), Results(newest_first=True)],
        *[Wait(within=20.0), *TWO_CALLS, *STOP_POOL],
        in_flight=2,
    ),
    forked_pool_case(
        "W8/first-one-slow",
        "the first call is held up on one rank while two more are submitted",
        *[
            *START_POOL,
            _HELD_LAST,
            Submit("compute"),
            Submit("echo", times=2),
            WaitBlocked(("worker-1",)),
        ],
        *[_ON_LAST, Results(), Wait(within=20.0), *STOP_POOL],
        in_flight=3,
    ),
    forked_pool_case(
        "W8/shutdown-with-futures",
        "the pool is shut down while two calls are outstanding; then results are asked for",
        *[
            *START_POOL,
            _HELD,
            Submit("compute"),
            Submit("echo"),
            WaitBlocked(("worker-0",)),
            PoolStop(),
        ],
        *[Results(), Wait(within=12.0)],
        in_flight=2,
    ),
    forked_pool_case(
        "W8/failed-among-futures",
        "of three calls in flight the second raises",
        *[*START_POOL, Submit("compute"), Submit("raise_error"), Submit("echo"), Results()],
        *[Wait(within=20.0), *TWO_CALLS, *STOP_POOL],
        in_flight=3,
    ),
)

CASES: tuple[Case, ...] = (*_STATES, *_REPLIES, *_STALLS, *_ERRORS, *_STARTS, *_FUTURES)
