"""Cases of parties of a coordinator that are lost, and return (C6)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    BreakWave,
    Connect,
    CoordinatorStart,
    Disconnect,
    Fault,
    ReportCounts,
    Request,
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

_IN_A_WAVE: list[AnyStep] = [*START_AND_CONNECT, *heard(SECOND, (4, 2)), *stepping(FIRST, SECOND)]
_SPARE = "engine-2"


def _goes(fault: AnyStep) -> list[AnyStep]:
    """One engine of a wave goes; the other is in the next one, and a request comes to it."""
    return [
        *_IN_A_WAVE,
        fault,
        *until("gone", FRONT, rank=1),
        *until("without", FIRST, rank=1),
        *heard(FIRST, (2, 1)),
        *stepping(FIRST),
    ]


def _takes_its_place() -> list[AnyStep]:
    """A new process comes as the rank that was killed."""
    return [
        *_goes(Fault("kill", SECOND)),
        Connect((_SPARE,), rank=1),
        *until("back", FRONT, rank=1),
        *heard(_SPARE, (6, 1), rank=1),
        Request((_SPARE,)),
        BreakWave(FIRST),
        *until("stepped", FIRST, _SPARE),
    ]


def _stopped() -> list[AnyStep]:
    """An engine is stopped past the silence, and goes on; a request came to it just before."""
    return [
        *_goes(Fault("stop", SECOND)),
        Fault("continue", SECOND),
        *until("back", FRONT, rank=1),
        *heard(SECOND, (6, 1)),
        *stepping(SECOND),
    ]


def _before_it_came() -> list[AnyStep]:
    """An engine dies before it ever listened: who waits for it in the all-reduce says so."""
    return [
        *START_COORDINATOR,
        Connect((FIRST, "front-ends")),
        *stepping(FIRST),
        Fault("kill", SECOND),
        Request((FIRST,)),
        BreakWave(FIRST, (1,)),
        *until("stepped", FIRST),
        *until("gone", FRONT, rank=1),
        *heard(FIRST, (2, 1)),
    ]


def _as_it_comes() -> list[AnyStep]:
    """An engine dies while it begins to listen, its request said or not."""
    return [
        *START_COORDINATOR,
        Connect((FIRST, "front-ends")),
        *stepping(FIRST),
        Connect((SECOND,)),
        Request((SECOND,)),
        Fault("kill", SECOND),
        Request((FIRST,)),
        BreakWave(FIRST, (1,)),
        *until("stepped", FIRST),
        *heard(FIRST, (2, 1)),
    ]


def _coordinator_killed() -> list[AnyStep]:
    """The coordinator is killed in a wave; the next one serves all who come to it."""
    return [
        *_IN_A_WAVE,
        Fault("kill", "coordinator"),
        *until("lost", "engines", FRONT),
        CoordinatorStart(timeout=30.0),
        Connect(),
        *until("state", FRONT),
        Request(("engines",)),
        *until("stepped", "engines"),
        *heard(FIRST, (2, 1)),
    ]


LOSS: tuple[Case, ...] = (
    coordinator_case(
        "C6/engine-killed",
        "an engine is killed in a wave, and a new one comes in its place",
        _takes_its_place(),
        spares=1,
        needs=("peer_watch",),
    ),
    coordinator_case(
        "C6/engine-stopped",
        "an engine is stopped for longer than the silence, and goes on",
        _stopped(),
    ),
    coordinator_case(
        "C6/engine-leaves",
        "an engine leaves in a wave, lives on, and comes again",
        [
            *_goes(Disconnect((SECOND,))),
            Connect((SECOND,)),
            *until("back", FRONT, rank=1),
            *heard(SECOND, (6, 1)),
        ],
        needs=("peer_watch",),
    ),
    coordinator_case(
        "C6/engine-killed-at-start",
        "an engine is killed before it listens, or as it begins to",
        _before_it_came(),
        _as_it_comes(),
        needs=("peer_watch",),
    ),
    coordinator_case(
        "C6/coordinator-killed",
        "the coordinator is killed in a wave; its parent starts the next one",
        _coordinator_killed(),
        needs=("peer_watch",),
    ),
    coordinator_case(
        "C6/coordinator-stopped",
        "the coordinator is stopped for longer than the silence, and goes on",
        [
            *_IN_A_WAVE,
            Fault("stop", "coordinator"),
            *until("lost", "engines", FRONT),
            ReportCounts(FIRST, (3, 3)),
            Fault("continue", "coordinator"),
            *until("found", "engines", FRONT),
            WaitNews((FRONT,), "counts", rank=0, counts=(3, 3)),
            Wait(within=9.0),
            *stepping("engines"),
            *heard(FIRST, (2, 1)),
            *heard(SECOND, (5, 1)),
        ],
    ),
    coordinator_case(
        "C6/parent-killed",
        "the coordinator's parent is killed: it ends, and all others hear no more of it",
        [*_IN_A_WAVE, Fault("kill", "parent"), *until("lost", "engines", FRONT)],
    ),
    coordinator_case(
        "C6/front-end-killed",
        "a front end is killed: nobody else takes notice",
        [
            *_IN_A_WAVE,
            Fault("kill", "front-end-1"),
            *heard(FIRST, (2, 1)),
            *stepping(FIRST),
            *heard(SECOND, (5, 1)),
        ],
        front_ends=2,
    ),
)
