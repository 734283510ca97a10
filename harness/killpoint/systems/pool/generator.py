"""Programs for the executor of a pool, drawn by Hypothesis (H3).

Calls and futures with deadlines that cross are under way while a worker stands still for a while;
workers raise; some calls have one rank's reply alone. Pools of one and of three workers are drawn,
too. In other programs health is asked for behind calls that take longer together than it may.
"""

from __future__ import annotations

from hypothesis import strategies as st

from killpoint.scenario import (
    AnyStep,
    Call,
    Execute,
    Fault,
    Health,
    Pause,
    PoolStart,
    PoolStop,
    Results,
    Scenario,
    Submit,
    Wait,
)
from killpoint.systems.pool.steps import SLOW, Method
from killpoint.targets.shapes import PoolShape

_WORKERS = (1, 2, 3)
_SOON = (0.0, 0.03, 0.1)
"""Seconds that a call to a worker that stands still runs into."""
_LATE = 3.0
"""Seconds within which every call ends that workers go on with."""
_BRIEF: tuple[Method, ...] = ("echo", "raise_error")
_METHODS: tuple[Method, ...] = (
    *("echo", "echo", "flood", "function", "function", "heavy", "heavy"),
    *("raise_error", "raise_error", "unpicklable", "unreadable"),
)
_SIZES = (0, 1, 64, 70_000)
"""Bytes of a reply; a chunk has 64 KiB."""
_MANY = 30
"""Calls in a row that are more than the queues of requests and of replies hold together."""
_ACTS = (
    *["call"] * 4,
    *["submit"] * 4,
    *["results"] * 3,
    *["burst"] * 2,
    *["volley"] * 2,
    "stop",
    "continue",
    "health",
    "pause",
)
_VOLLEY: tuple[Method, ...] = ("heavy", "heavy", "raise_error", "echo")
"""Methods of calls in a row, of which a brief one is done before a reply ahead of it is pickled."""
_TRANSFERS = ("a", "a", "ab", "é", "")
_SLOW_CALLS = 4
_PATIENCE = (_SLOW_CALLS - 0.5) * SLOW
"""Seconds within which each worker finishes all slow calls before health but the last."""
_ENDED_WITHIN = 20.0


@st.composite
def programs(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program of calls and futures; then every future is asked for its result."""
    shape = PoolShape(
        workers=draw(st.sampled_from(_WORKERS)),
        start="fork",
        in_flight=draw(st.integers(1, 4)),
        output_thread=draw(st.booleans()),
        grace=0.3,
    )
    steps: list[AnyStep] = [PoolStart(timeout=20.0), Wait(within=30.0)]
    outstanding = 0
    standing, asked = "", False
    """The worker that stands still, and whether it may owe a reply: a submission has no deadline,
    and may have to wait for that."""
    for _ in range(draw(st.integers(1, 24))):
        act = draw(st.sampled_from(_ACTS))
        timeout = draw(st.sampled_from(_SOON)) if standing else _LATE
        if act == "call":
            steps.append(_call(draw, shape, timeout))
        elif act == "burst" and not standing:
            rank = draw(st.integers(0, shape.workers - 1))
            method = draw(st.sampled_from(_BRIEF))
            steps.append(Call(method, times=_MANY, rank=rank, timeout=timeout, keep_on=True))
        elif act == "submit" and outstanding < shape.in_flight and not (standing and asked):
            outstanding += 1
            method, size, rank = _asked(draw, shape)
            steps.append(Submit(method, size=size, rank=rank))
        elif act == "volley" and not standing:
            free, rank = shape.in_flight - outstanding, _replying(draw, shape)
            count = draw(st.integers(min(2, free), free))
            outstanding += count
            methods = draw(st.lists(st.sampled_from(_VOLLEY), min_size=count, max_size=count))
            steps += [Submit(method, rank=rank) for method in methods]
        elif act == "results" and outstanding:
            count = draw(st.integers(1, outstanding))
            outstanding -= count
            newest = draw(st.booleans())
            steps.append(Results(count, timeout=timeout, newest_first=newest))
        elif act == "stop" and not standing:
            standing = f"worker-{draw(st.integers(0, shape.workers - 1))}"
            steps += [Wait(within=_ENDED_WITHIN), Fault("stop", standing)]
            steps.append(_call(draw, shape, draw(st.sampled_from(_SOON))))
        elif act == "continue" and standing:
            steps += [Wait(within=_ENDED_WITHIN), Fault("continue", standing)]
            standing = ""
        elif act == "health" and not standing:
            steps.append(Health(timeout=10.0))
        elif act == "pause":
            steps.append(Pause(0.02))
        if standing:
            asked = asked or act in ("call", "submit", "results", "stop")
        elif isinstance(steps[-1], Call) and steps[-1].rank is None:
            asked = False  # all have replied, to this call last
    if standing:
        steps += [Wait(within=_ENDED_WITHIN), Fault("continue", standing)]
    steps.append(Call(timeout=_LATE, keep_on=True))
    if outstanding:
        steps.append(Results(timeout=_LATE))
    steps += [Wait(within=_ENDED_WITHIN), PoolStop(), Wait(within=20.0)]
    return Scenario(case, [case.split("/")[0]], steps, pool=shape, seed=seed)


def _call(draw: st.DrawFn, shape: PoolShape, timeout: float) -> Call:
    method, size, rank = _asked(draw, shape)
    times = draw(st.sampled_from((1, 1, 2)))
    if method == "function":
        times = 2  # of one place in the source, with different values
    return Call(method, times=times, size=size, rank=rank, timeout=timeout, keep_on=True)


def _asked(draw: st.DrawFn, shape: PoolShape) -> tuple[Method, int, int | None]:
    """Draw a method, the size of its replies, and the rank that replies alone, if any."""
    size = draw(st.sampled_from(_SIZES))
    return draw(st.sampled_from(_METHODS)), size, _replying(draw, shape)


def _replying(draw: st.DrawFn, shape: PoolShape) -> int | None:
    """Draw the rank that replies alone; None: every one replies."""
    return draw(st.one_of(st.none(), st.none(), st.integers(0, shape.workers - 1)))


@st.composite
def transfer_programs(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program of steps in which ranks name the transfers that they have finished.

    Each rank names each transfer in a step of its own; a few ids are used again and again, and in
    some steps the rank that has the results has none.
    """
    workers = draw(st.sampled_from(_WORKERS))
    tensor = draw(st.sampled_from([n for n in range(1, workers + 1) if workers % n == 0]))
    shape = PoolShape(workers=workers, tensor=tensor, start="fork", grace=0.3, transfers=True)
    count = draw(st.integers(2, 8))
    output = [draw(st.integers(0, 3)) > 0 for _ in range(count)]
    named: dict[str, list[list[list[str]]]] = {
        way: [[[] for _ in range(workers)] for _ in range(count)] for way in ("sent", "received")
    }
    for id in draw(st.lists(st.sampled_from(_TRANSFERS), min_size=1, max_size=10)):
        way = draw(st.sampled_from(("sent", "received")))
        for rank in range(workers):
            has = [n for n in range(count) if output[n] or rank != shape.output_rank]
            free = [n for n in has if id not in named[way][n][rank]]
            if free:
                named[way][draw(st.sampled_from(free))][rank].append(id)
    steps: list[AnyStep] = [PoolStart(timeout=20.0), Wait(within=30.0)]
    for n in range(count):
        sent, received = (tuple(map(tuple, named[way][n])) for way in ("sent", "received"))
        steps.append(Execute(sent, received, output[n]))
    none: tuple[tuple[str, ...], ...] = ((),) * workers
    steps += [Execute(none, none), Wait(within=_ENDED_WITHIN), PoolStop(), Wait(within=20.0)]
    return Scenario(case, [case.split("/")[0]], steps, pool=shape, seed=seed)


@st.composite
def busy_programs(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program of rounds: slow calls are under way, and health waits behind them past its time."""
    shape = PoolShape(
        workers=draw(st.sampled_from(_WORKERS)),
        start="fork",
        in_flight=_SLOW_CALLS,
        output_thread=draw(st.booleans()),
        grace=0.3,
    )
    steps: list[AnyStep] = [PoolStart(timeout=20.0), Wait(within=30.0)]
    for _ in range(draw(st.integers(1, 3))):
        steps += [Submit("slow", rank=_replying(draw, shape)) for _ in range(_SLOW_CALLS)]
        steps += [Health(timeout=_PATIENCE), Results(timeout=_LATE)]
    steps += [Wait(within=_ENDED_WITHIN), PoolStop(), Wait(within=20.0)]
    return Scenario(case, [case.split("/")[0]], steps, pool=shape, seed=seed)
