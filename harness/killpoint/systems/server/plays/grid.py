"""The grid that ``--full`` adds to the named plays: every part x fault x phase, and exhaustion.

A cell is left out where a named play covers it, and where no verdict is possible: a front that is
stopped for ever answers no client, and if it is stopped while it drains, the time that it has stood
still is not the server's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from killpoint.scenario import AnyStep, Fault
from killpoint.systems.server.plays.lines import line_plays
from killpoint.systems.server.plays.named import END_IDLE, PLAYS, RARER_PLAYS, NamedPlay
from killpoint.systems.server.program import Topology
from killpoint.systems.server.steps import (
    ServerContinueLoad,
    ServerControl,
    ServerHangUp,
    ServerLoad,
    ServerOpenLoop,
    ServerPhase,
    ServerSlowReaders,
    ServerStart,
    ServerStop,
    ServerWaitAlive,
    ServerWaitGone,
    ServerWaitIdle,
    ServerWaitRestarted,
)

GridFault = Literal["kill", "stop-20s", "stop", "sigterm", "sigint"]
_Phase = Literal["idle", "prefill", "decode", "utility", "draining", "recovering"]
GridPhase = Literal["begun", "late"] | _Phase
_STARTING = ("begun", "late")
_SIGNALS = ("sigterm", "sigint")
FRONT = "front"
_API_SERVER = "api-server-0"

_WHEN: dict[GridPhase, str] = {
    "begun": "while-starting",
    "late": "late-in-start",
    "idle": "idle",
    "prefill": "in-prefill",
    "decode": "in-decode",
    "utility": "in-utility-call",
    "draining": "while-draining",
    "recovering": "while-recovering",
}
_WHEN_SAID: dict[GridPhase, str] = {
    "begun": "as soon as {it} has been started",
    "late": "when three fifths of a start's time have passed",
    "idle": "when nobody asks anything, and then twelve clients ask",
    "prefill": "when every client has asked, and none has a token",
    "decode": "in the midst of twelve answers",
    "utility": "in the midst of a utility call, and of twelve answers",
    "draining": "after SIGTERM to the front in the midst of twelve answers",
    "recovering": "in the midst of twelve answers, once {first} has been killed and started again",
}
_DONE: dict[GridFault, str] = {
    "kill": "killed",
    "stop-20s": "stopped-20s",
    "stop": "stopped",
    "sigterm": "sigterm",
    "sigint": "sigint",
}
_DONE_SAID: dict[GridFault, str] = {
    "kill": "is killed",
    "stop-20s": "is stopped for 20 s",
    "stop": "is stopped for ever",
    "sigterm": "gets SIGTERM",
    "sigint": "gets SIGINT",
}
_OF_A_PART: dict[GridFault, tuple[GridPhase, ...]] = {
    "kill": ("begun", "late", "idle", "prefill", "decode", "draining", "recovering"),
    "stop-20s": ("begun", "idle", "prefill", "decode", "recovering"),
    "stop": ("begun", "idle", "prefill", "decode", "draining", "recovering"),
    "sigterm": ("late", "idle", "prefill", "decode", "recovering"),
    "sigint": ("late", "idle", "prefill", "decode", "recovering"),
}
_OF_THE_FRONT: dict[GridFault, tuple[GridPhase, ...]] = {
    "kill": ("begun", "late", "idle", "prefill", "decode", "draining", "recovering"),
    "stop-20s": ("begun", "idle", "prefill", "decode", "recovering"),
    "sigterm": ("begun", "late", "idle", "prefill", "decode", "draining", "recovering"),
    "sigint": ("begun", "late", "idle", "prefill", "decode", "draining", "recovering"),
}
_IN_UTILITY: dict[str, tuple[GridFault, ...]] = {
    FRONT: ("kill", "sigterm"),
    "core": ("kill", "stop"),
    "worker": ("kill", "stop"),
}
"""Faults amid a utility call, by part."""
_BRIEFLY: tuple[GridFault, ...] = ("kill", "stop")
"""Faults of parts whose like is struck in every way elsewhere."""


class GridPart(msgspec.Struct, frozen=True):
    """Part that is struck, and the words for it in plays."""

    word: str
    said: str
    part: str
    topology: Topology
    briefly: bool = False


GRID_PARTS = (
    GridPart(FRONT, "the front", FRONT, "tensor-parallel"),
    GridPart("core", "the core", "core-0", "tensor-parallel"),
    GridPart("worker", "the first worker", "worker-0", "tensor-parallel"),
    GridPart("second-worker", "the second worker", "worker-1", "tensor-parallel", briefly=True),
    GridPart("replica", "the second of two replicas", "core-1", "data-parallel"),
    GridPart("coordinator", "the coordinator of two replicas", "coordinator", "data-parallel"),
    GridPart("api-server", "the first of two front ends", _API_SERVER, "front-ends"),
    GridPart("core-of-two", "the core of two front ends", "core-0", "front-ends", briefly=True),
    GridPart("prefill", "the one that prefills apart", "prefill-0", "apart"),
)
_NAMED_OTHERWISE = frozenset(
    (
        *("front-sigterm-in-decode", "front-sigterm-in-prefill", "front-sigterm-while-starting"),
        "front-sigint-in-decode",
        *("worker-stopped-20s-in-decode", "replica-killed-in-decode"),
        *("replica-stopped-in-decode", "coordinator-killed-in-decode"),
        *("prefill-killed-in-decode", "api-server-killed-in-decode"),
    )
)
"""Cells that named plays of another name cover."""

_BACK_WITHIN, _FOR_EVER, _ORPHANS_FOR, _STOPPED_FOR = 30.0, 25.0, 15.0, 20.0
_LEFT_WITHIN = 12.0
"""Seconds to wait for the end of a server with a stopped part, which is not judged."""
_UP: list[AnyStep] = [ServerStart(), ServerControl(), ServerLoad(), ServerPhase("decode")]


def grid() -> Iterator[NamedPlay]:
    """Yield every cell that no named play covers."""
    named = {play.name for play in (*PLAYS, *RARER_PLAYS)} | _NAMED_OTHERWISE
    for struck in GRID_PARTS:
        for fault, phases in (_OF_THE_FRONT if struck.part == FRONT else _OF_A_PART).items():
            for phase in phases if fault in _BRIEFLY or not struck.briefly else ():
                play = cell(struck, fault, phase)
                if play.name not in named:
                    yield play
        for fault in _IN_UTILITY.get(struck.word, ()):
            yield cell(struck, fault, "utility")


def cell(struck: GridPart, fault: GridFault, phase: GridPhase) -> NamedPlay:
    """Return the play of one part, one fault and one phase."""
    front = struck.part == FRONT
    when = _WHEN_SAID[phase].format(
        it="the first part" if front else "it", first="the core" if front else "it"
    )
    return NamedPlay(
        f"{struck.word}-{_DONE[fault]}-{_WHEN[phase]}",
        f"{struck.said} {_DONE_SAID[fault]} {when}",
        _judges(struck.part, fault, phase),
        [
            *_before(struck.part, fault, phase),
            *_strike(struck.part, fault),
            *_after(struck, fault, phase),
        ],
        struck.topology,
    )


def _judges(part: str, fault: GridFault, phase: GridPhase) -> tuple[str, ...]:
    asked = phase in ("prefill", "decode", "utility", "recovering")
    if part == FRONT and fault == "kill":
        return ("E8", "E5") if asked or phase == "draining" else ("E8",)
    if phase == "draining":
        return ("E6", "E5")
    if part == FRONT and fault in _SIGNALS:
        return ("E6", "E7", "E5") if asked else ("E6", "E7")
    of: dict[GridFault, tuple[str, ...]] = {
        "kill": ("E1", "E2", "E5", "E7"),
        "stop-20s": ("E1", "E2", "E5"),
        "stop": ("E1", "E4"),
    }
    ids = of.get(fault, ("E1", "E5"))
    if fault == "stop" and part == _API_SERVER:
        # Nobody else can end what waits on its connections, and the other one's health is true.
        ids = ("E2", "E5")
    # Without a control the tokens are not known, and health owes nothing before it was ready.
    return tuple(id for id in ids if phase not in _STARTING or id not in ("E2", "E4"))


def _before(part: str, fault: GridFault, phase: GridPhase) -> list[AnyStep]:
    """Return the steps until the phase is reached."""
    as_users = part == FRONT and fault != "stop-20s"
    if phase == "begun" or phase == "late":
        return [ServerStart(phase, ordinary=as_users, part="" if part == FRONT else part)]
    if phase == "idle":
        return [ServerStart(ordinary=as_users), ServerControl()]
    draining = phase == "draining"
    start = ServerStart(ordinary=as_users or draining, drains=draining)
    loaded = ServerPhase(phase if phase in ("prefill", "utility") else "decode")
    up: list[AnyStep] = [start, ServerControl(), ServerLoad(), loaded]
    if draining:
        return [*up, Fault("sigterm", FRONT), ServerContinueLoad(0.3)]
    if phase == "recovering":
        first = "core-0" if part == FRONT else part
        return [*up, Fault("kill", first), ServerWaitRestarted(first)]
    return up


def _strike(part: str, fault: GridFault) -> list[AnyStep]:
    if fault != "stop-20s":
        return [Fault(fault, part)]
    return [Fault("stop", part), ServerContinueLoad(_STOPPED_FOR), Fault("continue", part)]


def _after(struck: GridPart, fault: GridFault, phase: GridPhase) -> list[AnyStep]:
    """Return the steps after the fault: what clients still ask, and how it ends."""
    if struck.part == FRONT and fault == "kill":
        return [ServerWaitGone(_ORPHANS_FOR)]
    if phase == "draining" or (struck.part == FRONT and fault in _SIGNALS):
        return [ServerWaitGone()]
    asks: list[AnyStep] = [ServerLoad()] if phase in (*_STARTING, "idle") else []
    if fault == "stop":
        return [
            *asks,
            ServerContinueLoad(_FOR_EVER),
            ServerWaitIdle(),
            ServerStop(),
            ServerWaitGone(_LEFT_WITHIN),
        ]
    alive: list[AnyStep] = [ServerWaitAlive(_BACK_WITHIN)]
    back = [*alive, *asks] if phase in _STARTING else [*asks, ServerContinueLoad(2.0), *alive]
    return [*back, ServerContinueLoad(3.0), *END_IDLE]


def _run_out(what: Literal["starve", "fill-shm", "fill-tmp"], part: str = FRONT) -> list[AnyStep]:
    """Exhaust a resource to the end, without a stop: a server needs the resource to stop."""
    return [*_UP, Fault(what, part), ServerContinueLoad(8.0), ServerWaitIdle()]


_ALL = ("E1", "E2", "E5", "E7")
EXHAUSTIONS = (
    NamedPlay(
        "shm-full",
        "/dev/shm is filled in the midst of twelve answers",
        _ALL,
        _run_out("fill-shm"),
    ),
    NamedPlay(
        "shm-full-with-replicas",
        "/dev/shm is filled in the midst of twelve answers of two replicas",
        _ALL,
        _run_out("fill-shm"),
        "data-parallel",
    ),
    NamedPlay(
        "tmp-full",
        "the TMPDIR is filled in the midst of twelve answers",
        _ALL,
        _run_out("fill-tmp"),
    ),
    NamedPlay(
        "front-out-of-descriptors",
        "the front can open no descriptor more, in the midst of twelve answers",
        _ALL,
        _run_out("starve"),
    ),
    NamedPlay(
        "core-out-of-descriptors",
        "the core can open no descriptor more, in the midst of twelve answers",
        _ALL,
        _run_out("starve", "core-0"),
    ),
    NamedPlay(
        "worker-out-of-descriptors",
        "a worker can open no descriptor more, in the midst of twelve answers",
        _ALL,
        _run_out("starve", "worker-0"),
    ),
    NamedPlay(
        "api-server-out-of-descriptors",
        "one of two front ends can open no descriptor more, in the midst of twelve answers",
        _ALL,
        _run_out("starve", _API_SERVER),
        "front-ends",
    ),
)
"""Plays in which a resource runs out while answers are under way."""

_KILLED: list[AnyStep] = [
    Fault("kill", "core-0"),
    ServerContinueLoad(2.0),
    ServerWaitAlive(_BACK_WITHIN),
]
RARER_LOADS = (
    NamedPlay(
        "open-loop",
        "beside twelve clients, requests begin four a second whatever the answers do",
        ("E1", "E2"),
        [*_UP, ServerOpenLoop(), ServerContinueLoad(8.0), *END_IDLE],
    ),
    NamedPlay(
        "open-loop-replica-killed",
        "requests begin four a second whatever the answers do, and one of two replicas is killed",
        ("E1", "E2", "E5"),
        [
            *[
                *_UP,
                ServerOpenLoop(),
                ServerContinueLoad(2.0),
                Fault("kill", "core-1"),
                ServerContinueLoad(2.0),
            ],
            *[ServerWaitAlive(_BACK_WITHIN), ServerContinueLoad(3.0), *END_IDLE],
        ],
        "data-parallel",
    ),
    NamedPlay(
        "slow-readers-core-killed",
        "four clients read slowly, and the core is killed",
        ("E1", "E2", "E5"),
        [
            *_UP,
            ServerSlowReaders(),
            ServerContinueLoad(3.0),
            *_KILLED,
            ServerContinueLoad(3.0),
            *END_IDLE,
        ],
    ),
    NamedPlay(
        "whole-requests-aborted",
        "beside twelve clients, six abort answers that do not stream, halfway",
        ("E9", "E10"),
        [*_UP, ServerHangUp(whole=True), ServerContinueLoad(8.0), *END_IDLE],
    ),
)
"""Loads that users make too, and that plain checks leave out."""

FULL_PLAYS: tuple[NamedPlay, ...] = (
    *RARER_PLAYS,
    *RARER_LOADS,
    *EXHAUSTIONS,
    *grid(),
    *line_plays(),
)
