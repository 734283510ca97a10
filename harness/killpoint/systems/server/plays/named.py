"""The named plays of whole servers: their steps, topologies and invariants."""

from __future__ import annotations

import msgspec

from killpoint.scenario import AnyStep, Attack, Fault, ProbeExposure, Scenario
from killpoint.scenario.steps import FaultName
from killpoint.systems.server.program import Topology
from killpoint.systems.server.steps import (
    ServerContinueLoad,
    ServerControl,
    ServerHangUp,
    ServerLoad,
    ServerOpenLoop,
    ServerPhase,
    ServerSendInvalid,
    ServerShape,
    ServerSlowReaders,
    ServerStart,
    ServerStop,
    ServerWaitAlive,
    ServerWaitGone,
    ServerWaitIdle,
    ServerWaitRestored,
)

_BACK_WITHIN = 60.0
_FOR_EVER = 25.0
"""Seconds for which a play goes on after a stop: longer than health may lie while a client
waits."""
_ORPHANS_FOR = 15.0
"""Seconds for which orphans are watched."""
_LEFT_WITHIN = 3.0
"""Seconds to wait for the end of a server with a stopped part, which is not judged."""


class NamedPlay(msgspec.Struct, frozen=True):
    """A play of a server that several invariants judge; each of them is a case."""

    name: str
    summary: str
    judges: tuple[str, ...]
    steps: list[AnyStep]
    topology: Topology = "tensor-parallel"
    umask: int | None = None
    full: bool = False
    """True if it is left to ``--full``: another play shows the same of most servers, or sooner."""
    often: int = 1
    """Number of plays in a plain check, as long as its first invariant holds: parts of a server
    race."""
    asks_drain: bool = False
    """True if it is only of servers that have a drain where they are asked for one."""
    races: bool = False
    """True if its outcome was seen to differ from play to play: it is reported as a rate, even of
    one."""

    def scenario(self, id: str, seed: int = 0) -> Scenario:
        """Return the scenario of it for one of its invariants."""
        case, shape = f"{id}/{self.name}", ServerShape(self.topology)
        return Scenario(case, [id], self.steps, server=shape, umask=self.umask, seed=seed)


_UP: list[AnyStep] = [ServerStart(), ServerControl(), ServerLoad(), ServerPhase("decode")]
_AS_USERS = ServerStart(ordinary=True)
"""Start for plays whose end a forked start would change, for plays in which real engines are known
to break a promise (a forked play would have to be played once more), and for plays in which
``--full`` signals the front."""
_BEGUN_AS_USERS = ServerStart("begun", ordinary=True)
_UP_AS_USERS: list[AnyStep] = [_AS_USERS, *_UP[1:]]
_DRAINS: list[AnyStep] = [ServerStart(ordinary=True, drains=True), *_UP[1:]]
"""Start for plays that strike as a server drains: asked for its drain, where it has one only so."""
_LEFT = ServerWaitGone(_LEFT_WITHIN)
_ENDS_IDLE_WITHIN = 20.0
"""Seconds to wait for a server that was sent SIGTERM with nothing to do. One that hangs then is
judged by E6 and E8 in plays of their own."""
END_IDLE: list[AnyStep] = [ServerWaitIdle(), ServerStop(), ServerWaitGone(_ENDS_IDLE_WITHIN)]
_BACK: list[AnyStep] = [ServerWaitAlive(_BACK_WITHIN), ServerContinueLoad(3.0)]


def _struck(fault: FaultName, part: str) -> list[AnyStep]:
    return [*_UP, Fault(fault, part)]


def _struck_as_users(fault: FaultName, part: str) -> list[AnyStep]:
    return [*_UP_AS_USERS, Fault(fault, part)]


def _told(fault: FaultName) -> list[AnyStep]:
    return [*_UP_AS_USERS, Fault(fault, "front")]


def _killed(part: str) -> list[AnyStep]:
    return [*_struck("kill", part), ServerContinueLoad(2.0), *_BACK, *END_IDLE]


def _killed_as_users(part: str) -> list[AnyStep]:
    return [*_struck_as_users("kill", part), ServerContinueLoad(2.0), *_BACK, *END_IDLE]


def _stopped(part: str) -> list[AnyStep]:
    return [
        *_struck("stop", part),
        ServerContinueLoad(_FOR_EVER),
        ServerWaitIdle(),
        ServerStop(),
        _LEFT,
    ]


_VISITED: list[AnyStep] = [
    *[*_UP_AS_USERS, ProbeExposure(), Attack("front", "listen"), Attack("front", "speak")],
    *[Attack("front", "lurk"), ServerContinueLoad(2.0), ProbeExposure(), *END_IDLE],
]
"""Strangers at a server under umask 000, which any user can reach where the server itself sets no
permissions. It is started as users start it: exposure does not depend on timing, so one play is
enough."""

_PLAYS = (
    NamedPlay(
        "undisturbed",
        "clients ask, half of them for streams; then the server is told to end, idle",
        ("E2", "E7", "L1"),
        [*_UP_AS_USERS, ServerContinueLoad(3.0), *END_IDLE],
    ),
    NamedPlay(
        "sigterm-in-a-long-step",
        "a step takes five seconds more, and SIGTERM comes meanwhile, amid twelve answers",
        ("E6", "E5"),
        [
            *[*_UP_AS_USERS, Fault("stop", "worker-0"), ServerContinueLoad(0.5)],
            *[Fault("sigterm", "front"), ServerContinueLoad(5.0), Fault("continue", "worker-0")],
            ServerWaitGone(),
        ],
        often=2,
    ),
    NamedPlay(
        "sigterm-in-decode",
        "SIGTERM while twelve clients are in the midst of their answers",
        ("E6", "E5", "E7"),
        [*_told("sigterm"), ServerWaitGone()],
        races=True,
    ),
    NamedPlay(
        "sigterm-with-drain-asked",
        "the server is asked for its drain as it starts; SIGTERM in the midst of twelve answers",
        ("E6", "E5", "E7"),
        [
            *[*_DRAINS, Fault("sigterm", "front"), ServerWaitGone()],
        ],
        full=True,
        asks_drain=True,
    ),
    NamedPlay(
        "sigterm-in-prefill",
        "SIGTERM when every client has asked, and none has a token",
        ("E6", "E5"),
        [
            *[_AS_USERS, ServerControl(), ServerLoad(), ServerPhase("prefill")],
            *[Fault("sigterm", "front"), ServerWaitGone()],
        ],
        full=True,
    ),
    NamedPlay(
        "sigterm-while-starting",
        "SIGTERM when the first part has been started, and the server is not ready",
        ("E6", "L1"),
        [_BEGUN_AS_USERS, Fault("sigterm", "front"), ServerWaitGone()],
    ),
    NamedPlay(
        "sigint-in-decode",
        "SIGINT while twelve clients are in the midst of their answers",
        ("E6", "E7"),
        [*_told("sigint"), ServerWaitGone()],
        full=True,
    ),
    NamedPlay(
        "worker-killed-in-decode",
        "a worker is killed in the midst of twelve answers",
        ("E1", "E2", "E4", "E5", "E7"),
        _killed_as_users("worker-0"),
        races=True,
    ),
    NamedPlay(
        "core-killed-in-decode",
        "the core is killed in the midst of twelve answers",
        ("E1", "E2", "E5", "E7"),
        _killed_as_users("core-0"),
    ),
    NamedPlay(
        "worker-killed-while-draining",
        "SIGTERM in the midst of twelve answers, then a worker is killed",
        ("E6", "E5"),
        [
            *[*_DRAINS, Fault("sigterm", "front"), ServerContinueLoad(0.3)],
            *[Fault("kill", "worker-0"), ServerWaitGone()],
        ],
        full=True,
    ),
    NamedPlay(
        "core-killed-while-starting",
        "the core is killed while the server starts",
        ("E7",),
        [
            *[_BEGUN_AS_USERS, Fault("kill", "core-0"), ServerWaitAlive(_BACK_WITHIN)],
            *[ServerStop(), ServerWaitGone(_ENDS_IDLE_WITHIN)],
        ],
    ),
    NamedPlay(
        "worker-stopped",
        "a worker is stopped for ever in the midst of twelve answers",
        ("E4",),
        [*_struck_as_users("stop", "worker-0"), ServerContinueLoad(_FOR_EVER), ServerStop(), _LEFT],
        often=2,
    ),
    NamedPlay(
        "core-stopped",
        "the core is stopped for ever in the midst of twelve answers",
        ("E4",),
        [*_struck("stop", "core-0"), ServerContinueLoad(_FOR_EVER), ServerStop(), _LEFT],
        full=True,
    ),
    NamedPlay(
        "worker-stopped-3s",
        "a worker is stopped for 3 s in the midst of twelve answers: each goes on where it was",
        ("E2", "E1", "E5"),
        [
            *[*_struck("stop", "worker-0"), ServerContinueLoad(3.0), Fault("continue", "worker-0")],
            *[ServerContinueLoad(3.0), *END_IDLE],
        ],
    ),
    NamedPlay(
        "worker-stopped-20s",
        "a worker is stopped for 20 s in the midst of twelve answers",
        ("E1", "E2", "E5"),
        [
            *[
                *_struck("stop", "worker-0"),
                ServerContinueLoad(20.0),
                Fault("continue", "worker-0"),
            ],
            *[*_BACK, *END_IDLE],
        ],
        full=True,
    ),
    NamedPlay(
        "front-killed-in-decode",
        "the front is killed in the midst of twelve answers",
        ("E8", "E5"),
        [*_told("kill"), ServerWaitGone(_ORPHANS_FOR)],
    ),
    NamedPlay(
        "front-killed-idle",
        "the front is killed when nobody asks anything",
        ("E8",),
        [_AS_USERS, ServerControl(), Fault("kill", "front"), ServerWaitGone(_ORPHANS_FOR)],
    ),
    NamedPlay(
        "front-killed-while-starting",
        "the front is killed when the first part has been started",
        ("E8",),
        [_BEGUN_AS_USERS, Fault("kill", "front"), ServerWaitGone(_ORPHANS_FOR)],
        full=True,
    ),
    NamedPlay(
        "clients-hang-up",
        "beside twelve clients, six hang up: in the midst of their answers, and before",
        ("E9",),
        [*_UP, ServerHangUp(), ServerContinueLoad(8.0), *END_IDLE],
    ),
    NamedPlay(
        "clients-read-nothing",
        "beside twelve clients, six ask for streams and read nothing",
        ("E9",),
        [*_UP, ServerHangUp(never_read=True), ServerContinueLoad(8.0), *END_IDLE],
    ),
    NamedPlay(
        "slow-readers",
        "beside twelve clients, four read their streams a little at a time",
        ("E9",),
        [*_UP, ServerSlowReaders(), ServerContinueLoad(8.0), *END_IDLE],
        full=True,
    ),
    NamedPlay(
        "open-loop-worker-killed",
        "requests begin four a second whatever the answers do, and a worker is killed",
        ("E1", "E2", "E5"),
        [
            *[*_UP, ServerOpenLoop(), ServerContinueLoad(2.0), Fault("kill", "worker-0")],
            *[ServerContinueLoad(2.0), *_BACK, *END_IDLE],
        ],
        full=True,
    ),
    NamedPlay(
        "refused-and-aborted",
        "requests are refused, others aborted; then the same is asked as before",
        ("E10",),
        [*_UP, ServerSendInvalid(), ServerHangUp(), ServerContinueLoad(6.0), *END_IDLE],
    ),
    NamedPlay(
        "replica-killed",
        "one of two replicas is killed in the midst of twelve answers",
        ("E3", "E1", "E2", "E5"),
        [
            *[*_UP_AS_USERS[:3], ServerContinueLoad(1.0), _UP[3], Fault("kill", "core-1")],
            ServerContinueLoad(2.0),
            *[
                ServerWaitAlive(_BACK_WITHIN),
                ServerWaitRestored(),
                ServerContinueLoad(3.0),
                *END_IDLE,
            ],
        ],
        "data-parallel",
        races=True,
    ),
    NamedPlay(
        "strangers",
        "under umask 000 strangers come to each of its ports but the API's, amid twelve answers",
        ("S1", "S2", "S3"),
        _VISITED,
        umask=0,
    ),
    NamedPlay(
        "strangers-at-replicas",
        "the same with two replicas: strangers at each port but the API's, under umask 000",
        ("S1", "S2", "S3"),
        _VISITED,
        "data-parallel",
        umask=0,
        full=True,
    ),
    NamedPlay(
        "coordinator-killed",
        "the coordinator of two replicas is killed in the midst of twelve answers",
        ("E1", "E2", "E7"),
        _killed("coordinator"),
        "data-parallel",
    ),
    NamedPlay(
        "replica-stopped",
        "one of two replicas is stopped for ever in the midst of twelve answers",
        ("E1", "E4"),
        _stopped("core-1"),
        "data-parallel",
        full=True,
    ),
    NamedPlay(
        "sigterm-with-replicas",
        "SIGTERM to a server of two replicas in the midst of twelve answers",
        ("E6", "E5"),
        [*_struck("sigterm", "front"), ServerWaitGone()],
        "data-parallel",
        full=True,
    ),
    NamedPlay(
        "front-killed-with-replicas",
        "the front of two replicas is killed in the midst of twelve answers",
        ("E8",),
        [*_struck("kill", "front"), ServerWaitGone(_ORPHANS_FOR)],
        "data-parallel",
        full=True,
    ),
    NamedPlay(
        "prefill-killed",
        "prefill and decode are apart, and the one that prefills is killed amid twelve answers",
        ("E1", "E2", "E5"),
        _killed("prefill-0"),
        "apart",
    ),
    NamedPlay(
        "sigterm-with-prefill-apart",
        "prefill and decode are apart: SIGTERM in the midst of twelve answers",
        ("E6", "E5"),
        [*_told("sigterm"), ServerWaitGone()],
        "apart",
    ),
    NamedPlay(
        "api-server-killed",
        "one of two front ends is killed in the midst of twelve answers",
        ("E1", "E5", "E7"),
        _killed("api-server-0"),
        "front-ends",
    ),
    NamedPlay(
        "sigterm-with-front-ends",
        "SIGTERM to a server of two front ends in the midst of twelve answers",
        ("E6", "E5"),
        [*_told("sigterm"), ServerWaitGone()],
        "front-ends",
        full=True,
    ),
    NamedPlay(
        "front-killed-with-front-ends",
        "the front of two front ends is killed in the midst of twelve answers",
        ("E8",),
        [*_told("kill"), ServerWaitGone(_ORPHANS_FOR)],
        "front-ends",
        full=True,
    ),
    NamedPlay(
        "front-killed-on-two-nodes",
        "two workers on two nodes: the front is killed in the midst of twelve answers",
        ("E8",),
        [*_struck("kill", "front"), ServerWaitGone(_ORPHANS_FOR)],
        "two-nodes",
        full=True,
    ),
    NamedPlay(
        "core-killed-on-two-nodes",
        "two workers on two nodes: the core is killed in the midst of twelve answers",
        ("E1", "E5", "E7"),
        _killed("core-0"),
        "two-nodes",
        full=True,
    ),
    NamedPlay(
        "follower-killed",
        "what was started on the second of two nodes is killed in the midst of twelve answers",
        ("E1", "E5", "E7"),
        _killed("follower"),
        "two-nodes",
        full=True,
    ),
    NamedPlay(
        "cable-cut",
        "the cable between two nodes is pulled for good in the midst of twelve answers",
        ("E1", "E4"),
        [
            *_struck("cut", "follower"),
            ServerContinueLoad(_FOR_EVER),
            ServerWaitIdle(),
            ServerStop(),
            _LEFT,
        ],
        "two-nodes",
        full=True,
    ),
    NamedPlay(
        "cable-mended",
        "the cable between two nodes is pulled for 5 s in the midst of twelve answers",
        ("E1", "E2", "E5"),
        [
            *[*_struck("cut", "follower"), ServerContinueLoad(5.0), Fault("heal", "follower")],
            *[*_BACK, *END_IDLE],
        ],
        "two-nodes",
        full=True,
    ),
)
PLAYS: tuple[NamedPlay, ...] = tuple(play for play in _PLAYS if not play.full)
"""Plays of a plain check."""
RARER_PLAYS: tuple[NamedPlay, ...] = tuple(play for play in _PLAYS if play.full)
"""Plays that are left to ``--full``."""
