"""Reach of known bugs of an engine's parts in the whole engine: a play for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from killpoint.bench.recovery.aftermath import Aftermath, FrontExit, aftermath, end_of
from killpoint.bench.recovery.run import Player, Server, left_of, why_not
from killpoint.checkers.finding import Inconclusive
from killpoint.errors import BadUsage
from killpoint.history.record import History
from killpoint.progress.counting import Tell
from killpoint.runner.stage import Stage
from killpoint.scenario import AnyStep, Attack, Fault, Scenario
from killpoint.systems.server.program import Topology
from killpoint.systems.server.record import SECOND, Strike, life
from killpoint.systems.server.steps import (
    ServerCall,
    ServerContinueLoad,
    ServerControl,
    ServerLine,
    ServerLoad,
    ServerPhase,
    ServerShape,
    ServerStart,
    ServerStop,
    ServerWaitAlive,
    ServerWaitGone,
)

_UP: list[AnyStep] = [ServerStart(), ServerControl(), ServerLoad(), ServerPhase("decode")]
_UP_AS_USERS: list[AnyStep] = [ServerStart(ordinary=True), *_UP[1:]]
_LOOKED_ON: list[AnyStep] = [ServerContinueLoad(15.0), ServerWaitGone(1.0)]
_ORPHANS: list[AnyStep] = [ServerWaitGone(20.0)]


class Reach(msgspec.Struct, frozen=True):
    """The play that has a known bug come to light in a whole engine, if it does."""

    finding: str
    """Id of the bug's finding in the registry."""
    said: str
    """Description of what is done."""
    steps: list[AnyStep]
    topology: Topology = "tensor-parallel"
    umask: int | None = None
    answered: bool = False
    """True if the last call of all workers is one that they ought to answer."""

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario to play."""
        shape = ServerShape(self.topology)
        case = f"E1/{self.finding}"
        return Scenario(case, ["E1"], self.steps, server=shape, umask=self.umask, seed=seed)


def _never_called(path: str) -> list[AnyStep]:
    """Return steps with a fault at a line, which strikes if a process comes to it."""
    return [*_UP, ServerLine(path, fault="kill", within=5.0), *_LOOKED_ON]


REACHES = (
    Reach(
        "late-replies",
        "a call of all workers is made that each refuses, and then one that none refuses",
        [*_UP, ServerCall("refused"), ServerContinueLoad(3.0), ServerCall("accepted"), *_LOOKED_ON],
        answered=True,
    ),
    Reach(
        "dead-output-thread",
        "a call of all workers is made whose result cannot be sent, and then one whose can",
        [
            *_UP,
            ServerCall("unsendable"),
            ServerContinueLoad(3.0),
            ServerCall("accepted"),
            *_LOOKED_ON,
        ],
        answered=True,
    ),
    Reach(
        "deaf-reader",
        "the core is killed between the mark of a message larger than a chunk and its payload",
        [*_UP_AS_USERS, ServerLine("overflow", fault="kill", first="large"), *_ORPHANS],
    ),
    Reach(
        "deaf-start",
        "the core is killed while a worker is about to wait for the end of its handshake",
        [
            *[
                ServerStart("begun", ordinary=True),
                ServerLine("handshake", fault="stop", within=60),
            ],
            *[
                Fault("kill", "core-0"),
                Fault("continue", "worker-0"),
                Fault("continue", "worker-1"),
            ],
            *_ORPHANS,
        ],
    ),
    Reach(
        "late-death-watch",
        "the core is killed when its first worker has been started",
        [ServerStart("begun", "worker-0", ordinary=True), Fault("kill", "core-0"), *_ORPHANS],
    ),
    Reach(
        "altered-after-enqueue",
        "nothing is done: 15 s of answers, each compared with the undisturbed one",
        [*_UP, ServerCall("nearly-large"), *_LOOKED_ON],
    ),
    Reach(
        "unreserved-memory",
        "/dev/shm is filled, and a message a little smaller than a chunk is sent",
        [*_UP, Fault("fill-shm", "front"), ServerCall("nearly-large"), *_LOOKED_ON],
    ),
    Reach(
        "undecoded-frame",
        "a stranger sends a frame that is no message to each port but the API's",
        [*_UP, Attack("front", "speak"), *_LOOKED_ON],
        "data-parallel",
    ),
    Reach(
        "silent-cut",
        "the cable between two nodes is pulled, and never put in again",
        [*_UP, Fault("cut", "follower"), ServerContinueLoad(40.0), ServerWaitGone(1.0)],
        "two-nodes",
    ),
    Reach(
        "unwatched-connection",
        "the core of two nodes is killed",
        [*_UP, Fault("kill", "core-0"), ServerContinueLoad(15.0), ServerWaitGone(20.0)],
        "two-nodes",
    ),
    Reach(
        "confused-senders",
        "a process that sends an object to another rank would be killed",
        _never_called("group-send"),
    ),
    Reach(
        "late-barrier",
        "a process that enters a barrier of a process group would be killed",
        _never_called("group-barrier"),
    ),
    Reach("told-after-grace", "a worker is killed", [*_UP, Fault("kill", "worker-0"), *_LOOKED_ON]),
    Reach(
        "orphan-coordinator",
        "the front of two replicas is killed",
        [*_UP, Fault("kill", "front"), *_ORPHANS],
        "data-parallel",
    ),
    Reach(
        "coordinator-paths-stay",
        "the coordinator of two replicas is killed",
        [*_UP, Fault("kill", "coordinator"), *_LOOKED_ON],
        "data-parallel",
    ),
    Reach(
        "ipc-paths-stay",
        "nothing is done, and it is told to end, idle",
        [ServerStart(ordinary=True), ServerControl(), ServerStop(), ServerWaitGone()],
    ),
    Reach(
        "unanswered-at-shutdown",
        "SIGTERM while a step takes 5 s more",
        [
            *[*_UP_AS_USERS, Fault("stop", "worker-0"), ServerContinueLoad(0.5)],
            *[Fault("sigterm", "front"), ServerContinueLoad(5.0), Fault("continue", "worker-0")],
            ServerWaitGone(20.0),
        ],
    ),
    Reach(
        "swallowed-sigterm",
        "SIGTERM when the first part has been started",
        [
            *[ServerStart("begun", ordinary=True), Fault("sigterm", "front")],
            *[ServerWaitAlive(60.0), ServerWaitGone(1.0)],
        ],
    ),
    Reach("orphan-core", "the front is killed", [*_UP, Fault("kill", "front"), *_ORPHANS]),
    Reach("ended-as-if-well", "the core is killed", [*_UP, Fault("kill", "core-0"), *_LOOKED_ON]),
    Reach(
        "blind-health",
        "a worker is stopped for ever",
        [*_UP, Fault("stop", "worker-0"), ServerContinueLoad(25.0), ServerWaitGone(1.0)],
    ),
)
"""Plays, in the order of the report: those that bite in an engine's parts first."""
BY_FINDING = {reach.finding: reach for reach in REACHES}


class Call(msgspec.Struct, frozen=True):
    """End of a utility call."""

    after_s: float
    end: str
    why: str = ""


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one play."""

    server: str
    finding: str
    why: str = ""
    """Reason why there is no result, or that no process came to the line."""
    after: Aftermath | None = None
    """None: no client asked, or nothing struck."""
    first_s: float | None = None
    """Seconds from the fault until the first request ended otherwise than whole."""
    calls: list[Call] = []
    end: FrontExit | None = None
    """End of the front: the process that was started; None: it lives."""
    left: list[str] = []
    """Parts that lived when it was looked at last."""
    shm_bytes: int = 0
    files: int = 0

    @property
    def reaches(self) -> bool:
        """True if a client got anything but its whole answer, or the answer to a call.

        A request that was asked later and is open at the end of the play does not count: its answer
        may still have come.
        """
        if self.calls and BY_FINDING[self.finding].answered and self.calls[-1].end != "whole":
            return True
        if self.after is None:
            return False
        later = set(self.after.later) - {"open"}
        return bool((set(self.after.in_flight) | later) - {"whole"})


def chosen(names: list[str] | None) -> list[Reach]:
    """Return the plays of these findings, in their own order; None: all of them.

    Raises:
        BadUsage: one of the findings has no play.
    """
    for name in names or []:
        if name not in BY_FINDING:
            raise BadUsage(
                f"no play of a finding {name!r}; expected one of: {', '.join(BY_FINDING)}"
            )
    return [reach for reach in REACHES if names is None or reach.finding in names]


def measure_reach(
    servers: Sequence[tuple[Server, str]],
    reaches: Sequence[Reach],
    seed: int,
    tell: Tell,
    opened: Callable[[str], Player] = Stage,
) -> list[Reached]:
    """Carry out each play on each server; return what was played before an interrupt."""
    found: list[Reached] = []
    for server, resolved in servers:
        with opened(resolved) as player:
            try:
                for number, reach in enumerate(reaches):
                    tell(f"{reach.finding} on {server.spec}", number, len(reaches))
                    found.append(_played(player, server.spec, reach, seed))
            except (KeyboardInterrupt, SystemExit):
                tell("interrupted: what was played by now is told")
                return found
    return found


def _played(player: Player, spec: str, reach: Reach, seed: int) -> Reached:
    play = player.play(reach.scenario(seed))
    try:
        why = why_not(play)
        if why and not play.unreached:
            return Reached(server=spec, finding=reach.finding, why=why)
        return _told(spec, reach.finding, play.history, why)
    finally:
        player.forget(play)


def _told(spec: str, finding: str, history: History, why: str) -> Reached:
    of, left = life(history), left_of(history)
    if not of.strikes:  # what is done is no fault: a stranger comes, or it is told to end
        done = history.first("intrude", "told-to-end")
        of.strikes += [Strike(done.t, done.kind, "front")] if done is not None else []
    struck = of.strikes[0].t if of.strikes else 0
    after: Aftermath | None = None
    try:
        after = aftermath(of, left)
    except Inconclusive as doubt:
        why = why or ("" if of.strikes else str(doubt))
    looks = list(history.of("looked-on"))
    load = [each for each in of.load() if not each.utility]
    bad = [x.ended for x in load if x.ended and x.ended > struck and x.end != "whole"]
    return Reached(
        server=spec,
        finding=finding,
        why=why,
        after=after,
        first_s=round((min(bad) - struck) / SECOND, 1) if bad and struck else None,
        calls=_calls(history, struck),
        end=end_of(of, struck) if struck else None,
        left=[str(each) for each in looks[-1].items("left")] if looks else [],
        shm_bytes=left.shm_bytes,
        files=left.files,
    )


def _calls(history: History, since: int) -> list[Call]:
    asked = {e.number("n") for e in history.of("ask") if e.text("phase") == "utility"}
    return [
        Call(round((e.t - since) / SECOND, 1), e.text("end"), e.text("why")[:200])
        for e in history.of("answer")
        if e.number("n") in asked
    ]
