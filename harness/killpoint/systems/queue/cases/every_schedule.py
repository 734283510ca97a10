"""Q8 and Q13 in every schedule up to a bound: sleepers wake, threads exclude each other."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Attach,
    Make,
    MemoryModel,
    Message,
    Pause,
    Ready,
    Receive,
    Scenario,
    Send,
    Simulated,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.schedule_run import search
from killpoint.search.simulated import Ask
from killpoint.targets.shapes import QueueShape

_CHUNK = 160
_IDLE = 2.0
"""Longer than any release's busy loop, so that readers fall asleep in it."""
_LONG = 100.0
"""Longer than any sleeper's own limit."""
_FULL = 60_000
_NEEDS = frozenset({"queue", "sim_memory", "sim_sockets", "clock"})

_Play = tuple[Scenario, list[Ask]]


def _waking(
    case: str,
    memory: MemoryModel,
    pauses: list[float],
    readers: int = 1,
    *,
    chunks: int = 2,
    late: bool = False,
) -> Scenario:
    steps: list[AnyStep] = [Make(), Attach(), Ready(), Receive(len(pauses))]
    for pause in pauses:
        steps += [Pause(pause), Send([Message()], mutate=False)]
    return Scenario(
        case=case,
        judges=["Q8"],
        steps=[*steps, Wait()],
        shape=QueueShape(readers=readers, chunk_bytes=_CHUNK, chunks=chunks),
        simulated=Simulated(memory, late=late),
    )


def _sharing(case: str, calls: int, *, senders: int = 1, receivers: int = 1) -> Scenario:
    count = calls * max(senders, receivers)
    steps: list[AnyStep] = [
        Make(),
        Attach(),
        Ready(),
        Send([Message(repeat=count)], threads=senders, mutate=False),
        Receive(count, threads=receivers),
        Wait(),
    ]
    return Scenario(
        case=case,
        judges=["Q13"],
        steps=steps,
        shape=QueueShape(readers=1, chunk_bytes=_CHUNK, chunks=2 * count),
        simulated=Simulated(),
    )


def _case(name: str, summary: str, *plays: _Play) -> Case:
    def run(case_run: CaseRun) -> None:
        for scenario, asks in plays:
            search(case_run, scenario, [_wide(ask) for ask in asks] if case_run.full else asks)

    needs = _NEEDS | {"points", "deadlines"} if name.startswith("Q13") else _NEEDS
    return Case(name, summary, run, needs)


def _wide(ask: Ask) -> Ask:
    runs = 10 * ask.cap if ask.way in ("pct", "random") else _FULL
    return Ask(ask.way, ask.bound, runs)


def _preemptions(bound: int, cap: int) -> Ask:
    return Ask("preemptions", bound, cap)


def _beside(count: int) -> list[Ask]:
    return [Ask("pct", 3, count), Ask("random", cap=count)]


_EVERY, _LATE = "Q8/every-schedule", "Q8/late-subscription"
_SENDERS, _RECEIVERS = "Q13/two-senders-every-schedule", "Q13/two-receivers-every-schedule"
_THRICE = [_IDLE, 0.0, _LONG]
_SIX = [_IDLE, 0.0, _IDLE, 0.0, 0.0, _LONG]
"""Two slots, each reused twice."""

CASES: tuple[Case, ...] = (
    _case(
        _EVERY,
        "readers fall asleep at any instant before, during and after a publication",
        (_waking(_EVERY, "sequential", _THRICE, chunks=1), [_preemptions(2, 3_000)]),
        (_waking(_EVERY, "tso", _THRICE, chunks=1), [_preemptions(2, 3_000), *_beside(200)]),
        (_waking(_EVERY, "sequential", _SIX), [_preemptions(2, 3_000), *_beside(200)]),
        (_waking(_EVERY, "sequential", [_IDLE, _LONG], 2), [_preemptions(2, 5_000), *_beside(200)]),
    ),
    _case(
        _LATE,
        "readers fall asleep at any instant; sockets deliver later than readers idle",
        (
            _waking(_LATE, "sequential", [_IDLE, _LONG], late=True),
            [_preemptions(2, 4_000), *_beside(200)],
        ),
    ),
    _case(
        _SENDERS,
        "two threads send by one object, and each may be held up before any line",
        (_sharing(_SENDERS, 1, senders=2), [_preemptions(2, 6_000)]),
        (_sharing(_SENDERS, 2, senders=2), _beside(300)),
    ),
    _case(
        _RECEIVERS,
        "two threads receive by one object, and each may be held up before any line",
        (_sharing(_RECEIVERS, 1, receivers=2), [_preemptions(2, 6_000)]),
        (_sharing(_RECEIVERS, 2, receivers=2), _beside(300)),
    ),
)
