"""Cases of a coordinator: malformed messages (C4), clock (C5), floods (C7), service (C2)."""

from __future__ import annotations

from typing import get_args

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Connect,
    CoordinatorClose,
    EndWave,
    EngineLie,
    Fault,
    Flood,
    Forge,
    FrontEndLie,
    Pause,
    ProbeExposure,
    ReportCounts,
    Request,
    Scale,
    Wait,
    WaitNews,
)
from killpoint.systems.coordinator.cases.builders import (
    FIRST,
    FRONT,
    SECOND,
    START_AND_CONNECT,
    START_COORDINATOR,
    coordinator_case,
    heard,
    stepping,
    until,
)
from killpoint.systems.coordinator.cases.losses import LOSS
from killpoint.systems.coordinator.cases.network import HOSTS

_BESIDE = ("wrong-type", "far-wave", "huge-number")
"""Lies that carry good counts beside one bad field."""
_PUBLISHED = ("negative-counts", "unknown-rank")
"""Lies that would show in the next publication if they were believed, and be gone in the one after
it."""


def _engine_lies() -> list[AnyStep]:
    """Send each lie before, in and after a wave, with counts of its own beside it.

    After each one counts are sent and heard, so that it is known which lie the coordinator
    outlived.
    """
    steps: list[AnyStep] = [*START_AND_CONNECT, *heard(SECOND, (3, 1))]
    for number, lie in enumerate(get_args(EngineLie)):
        counts = (20 + number, 2)
        steps.append(Forge(FIRST, lie, counts))
        if lie in _BESIDE:
            steps += [
                WaitNews((FRONT,), "counts", rank=0, counts=counts, within=4.0),
                Wait(within=9.0),
            ]
        elif lie in _PUBLISHED:
            steps += heard(SECOND, (3, number))
        else:
            steps += heard(FIRST, (50 + number, 2))
    steps += stepping(FIRST)
    for number, lie in enumerate(get_args(EngineLie)):
        steps += [Forge(FIRST, lie, (40, 4)), *heard(FIRST, (70 + number, 2))]
    steps += [*heard(SECOND, (4, 1)), *heard(FIRST, (1, 1))]
    return [*steps, EndWave((FIRST, SECOND)), Wait(), *stepping(SECOND)]


def _front_end_lies() -> list[AnyStep]:
    lies: list[AnyStep] = [Forge(FRONT, lie) for lie in get_args(FrontEndLie)]
    one_by_one: list[AnyStep] = []
    for number, lie in enumerate(lies):
        one_by_one += [lie, *heard(FIRST, (10 + number, 1), FRONT, "front-end-1")]
    return [
        *START_AND_CONNECT,
        *heard(FIRST, (5, 1), FRONT, "front-end-1"),
        *one_by_one,
        *heard(SECOND, (6, 1), FRONT, "front-end-1"),
        *stepping(FIRST),
        *lies,
        *heard(SECOND, (7, 1), FRONT, "front-end-1"),
        Scale(FRONT, 3),
        WaitNews(("front-ends",), "ranks", rank=3),
        Wait(within=9.0),
    ]


def _flooded_with_lies() -> list[AnyStep]:
    return [
        *START_AND_CONNECT,
        *heard(FIRST, (5, 1)),
        Flood((SECOND,), 1.0, "truncated"),
        *heard(FIRST, (6, 1)),
        *stepping(FIRST),
        *heard(FIRST, (7, 1)),
        Wait(),
        *heard(SECOND, (8, 1)),
    ]


_HOSTILE = (
    coordinator_case(
        "C4/engine-lies", "an engine sends what makes no sense, each way", _engine_lies()
    ),
    coordinator_case(
        "C4/front-end-lies",
        "a front end sends what makes no sense",
        _front_end_lies(),
        front_ends=2,
    ),
    coordinator_case(
        "C4/flooded-with-lies", "a flood of what makes no sense", _flooded_with_lies()
    ),
)


def _clock(hours: float) -> list[AnyStep]:
    """The coordinator's clock jumps between a change and its publication, and again while idle."""
    jump = Fault("jump-clock", "coordinator", hours=hours)
    told = WaitNews((FRONT,), "counts", rank=0, counts=(9, 1))
    return [
        *START_AND_CONNECT,
        *heard(FIRST, (1, 1)),
        ReportCounts(FIRST, (9, 1)),
        Wait(),
        jump,
        told,
        Wait(within=9.0),
        jump,
        Pause(1.7),
        *heard(SECOND, (2, 1)),
        *stepping(SECOND),
        *heard(SECOND, (4, 1)),
    ]


_CLOCK = (
    coordinator_case("C5/clock-forward", "its wall clock jumps 2 h forth", _clock(2.0)),
    coordinator_case("C5/clock-back", "its wall clock jumps 2 h back", _clock(-2.0)),
)


def _steady(count: int, *flooding: str) -> list[AnyStep]:
    """Changes of one engine, while the others repeat theirs as fast as they can."""
    steps: list[AnyStep] = [*START_AND_CONNECT, Flood(flooding, 0.3 * count)]
    for turn in range(count):
        steps += [ReportCounts(FIRST, (turn + 1, 1)), Pause(0.28)]
    last = WaitNews(("front-ends",), "counts", rank=0, counts=(count, 1))
    return [*steps, last, Wait(within=15.0)]


def _many_changes() -> list[AnyStep]:
    """Each engine tells a change every few milliseconds; the last of them is heard."""
    steps: list[AnyStep] = [*START_AND_CONNECT]
    for turn in range(60):
        steps += [ReportCounts(engine, (turn + 1, 2)) for engine in (FIRST, SECOND)]
    for rank in (0, 1):
        told = WaitNews(("front-ends",), "counts", rank=rank, counts=(60, 2))
        steps += [told, Wait(within=15.0)]
    return [*steps, *heard(FIRST, (1, 1), FRONT, "front-end-1")]


_FLOODS = (
    coordinator_case(
        "C7/flood-of-counts",
        "changes of one engine are heard while another repeats its counts without end",
        _steady(6, SECOND),
        front_ends=2,
    ),
    coordinator_case(
        "C7/flood-in-a-wave",
        "changes are heard while two engines repeat their counts without end in a wave",
        [*_steady(4, SECOND, "engine-2"), *stepping(FIRST), *heard(FIRST, (7, 1))],
        engines=3,
    ),
    coordinator_case(
        "C7/many-changes", "changes that follow each other fast", _many_changes(), front_ends=2
    ),
)

_SERVED = (
    coordinator_case(
        "C2/late-subscriber",
        "an engine comes when a wave is on, and one that has a request before anybody listens",
        [
            *START_COORDINATOR,
            Connect((FIRST, "front-ends")),
            *stepping(FIRST),
            Connect((SECOND,)),
            *stepping(SECOND),
            EndWave((FIRST, SECOND)),
            Wait(),
            Request(("engines",)),
            *until("stepped", "engines"),
        ],
        [*START_COORDINATOR, Connect(), Request((SECOND,)), *until("stepped", SECOND, FIRST)],
    ),
    coordinator_case(
        "C2/waves-follow-each-other",
        "requests come as waves end",
        [
            *START_AND_CONNECT,
            *(
                step
                for engine in (FIRST, SECOND, FIRST)
                for step in (*stepping(engine), EndWave((FIRST, SECOND)), Request((SECOND,)))
            ),
            *until("stepped", "engines"),
        ],
    ),
)

_AROUND = (
    coordinator_case(
        "S1/coordinator-listeners",
        "a coordinator listens at the address that it was asked for, or at none",
        [
            *START_AND_CONNECT,
            *stepping(FIRST),
            ProbeExposure(("parent", "coordinator")),
            CoordinatorClose(),
            Wait(),
        ],
        host="127.0.0.1",
    ),
    coordinator_case(
        "S2/coordinator-paths",
        "a coordinator's paths are its owner's alone under umask 000",
        [*START_AND_CONNECT, *stepping(FIRST), ProbeExposure(("parent", "coordinator", FIRST))],
        umask=0,
    ),
    coordinator_case(
        "L1/coordinator-killed",
        "nothing is left of a killed coordinator, or of one whose parent was killed",
        [*START_AND_CONNECT, Fault("kill", "coordinator"), *until("lost", "engines")],
        [*START_AND_CONNECT, Fault("kill", "parent")],
    ),
    coordinator_case(
        "L1/coordinator-and-all-killed",
        "the next start removes what was left when all were killed",
        [
            *START_AND_CONNECT,
            *(Fault("kill", role) for role in ("parent", "coordinator", FIRST, SECOND, FRONT)),
        ],
        restart=True,
    ),
)

CASES: tuple[Case, ...] = (*_HOSTILE, *_CLOCK, *LOSS, *HOSTS, *_FLOODS, *_SERVED, *_AROUND)
