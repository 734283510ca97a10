"""Kinds of hangs that are put into whole servers, and the culprit of each."""

from __future__ import annotations

import msgspec

from killpoint.errors import BadUsage
from killpoint.scenario import AnyStep, Fault, Scenario
from killpoint.systems.server.program import Topology
from killpoint.systems.server.steps import (
    LineFaultName,
    ServerContinueLoad,
    ServerInspect,
    ServerLine,
    ServerLoad,
    ServerPhase,
    ServerShape,
    ServerStart,
)

_UP: list[AnyStep] = [ServerStart(), ServerLoad(), ServerPhase("decode")]
_SILENT = ServerInspect(silence=1.0)
_STOPS_IN_A_PLAY = 5
HEALTHY = "healthy"
"""The name of the looks at trees that do not hang."""


class Kind(msgspec.Struct, frozen=True):
    """One way in which a server hangs."""

    name: str
    said: str
    steps: list[AnyStep]
    right: tuple[str, ...] = ()
    """The parts of which one has to be named; empty: the one that was struck."""
    hangs: int = 1
    """Number of hangs in one play."""
    topology: Topology = "tensor-parallel"
    survivable: bool = False
    """True if a server may come through it without a hang: then there is nothing to inspect."""

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario to play."""
        shape = ServerShape(self.topology)
        return Scenario(f"E4/{self.name}", ["E4"], self.steps, server=shape, seed=seed)


def _stopped(name: str, said: str, part: str) -> Kind:
    """A part stands still, is looked at, and goes on; so often in a play."""
    once: list[AnyStep] = [
        *[Fault("stop", part), _SILENT, Fault("continue", part)],
        *[ServerContinueLoad(1.0), ServerPhase("decode")],
    ]
    return Kind(name, said, [*_UP, *once * _STOPS_IN_A_PLAY], (part,), _STOPS_IN_A_PLAY)


def _held(name: str, said: str, path: str, fault: LineFaultName) -> Kind:
    """A part hangs at a line of its own code."""
    return Kind(name, said, [*_UP, ServerLine(path, 0.5, fault), _SILENT])


KINDS = (
    _stopped("worker-stopped", "a worker is stopped", "worker-0"),
    _stopped("second-worker-stopped", "the second of two workers is stopped", "worker-1"),
    _stopped("core-stopped", "the core is stopped", "core-0"),
    _stopped("front-stopped", "the front is stopped", "front"),
    Kind(
        "replica-stopped",
        "one of two replicas is stopped",
        [*_UP, Fault("stop", "core-1"), ServerContinueLoad(2.0), ServerInspect()],
        topology="data-parallel",
    ),
    _held("worker-spins", "a worker computes without an end", "run", "spin"),
    _held("worker-sleeps", "a rank never enters its collective: it sleeps", "run", "sleep"),
    _held(
        "worker-holds-gil", "a worker sleeps with the interpreter's lock held", "run", "hold-gil"
    ),
    _held(
        "worker-lost-lock", "a worker waits for a lock whose holder has ended", "run", "lost-lock"
    ),
    _held("worker-file-lock", "a worker waits for a lock of a file", "run", "file-lock"),
    _held("worker-full-pipe", "a worker writes to a pipe that nobody reads", "run", "full-pipe"),
    _held("lost-reply", "a worker's reply is lost", "reply", "swallow"),
    _held("core-spins", "the core computes without an end", "step", "spin"),
    _held("core-sleeps", "the core sleeps", "step", "sleep"),
    _held(
        "core-lost-lock", "the core waits for a lock whose holder has ended", "step", "lost-lock"
    ),
    Kind(
        "front-killed",
        "the front is killed, and its core waits on",
        [*_UP, Fault("kill", "front"), ServerContinueLoad(3.0), ServerInspect("core-0")],
        ("core-0",),
        survivable=True,
    ),
    Kind(
        "sigterm-in-a-long-step",
        "SIGTERM amid answers, and the front waits for clients whom nobody answers",
        [
            *[
                ServerStart(ordinary=True),
                *_UP[1:],
                Fault("stop", "worker-0"),
                ServerContinueLoad(0.5),
            ],
            *[Fault("sigterm", "front"), ServerContinueLoad(5.0), Fault("continue", "worker-0")],
            ServerInspect(silence=5.0),
        ],
        ("front",),
        survivable=True,
    ),
    Kind(
        "front-out-of-descriptors",
        "the front has no descriptor left, and cannot accept a connection",
        [ServerStart(), Fault("starve", "front"), ServerLoad(), _SILENT],
        ("front",),
        survivable=True,
    ),
)
"""Kinds of hang, in the order of the report."""
BY_NAME = {kind.name: kind for kind in KINDS}


def healthy(looks: int, topology: Topology = "tensor-parallel") -> Kind:
    """Return a kind that inspects one healthy, serving tree so many times."""
    steps: list[AnyStep] = [*_UP, ServerInspect(times=looks)]
    return Kind(HEALTHY, "nothing is done to it, under load", steps, topology=topology)


def chosen(names: list[str] | None) -> list[Kind]:
    """Return the kinds of these names, in their own order; None: all of them.

    Raises:
        BadUsage: no kind has one of the names.
    """
    for name in names or []:
        if name not in BY_NAME:
            raise BadUsage(f"no kind of hang {name!r}; expected one of: {', '.join(BY_NAME)}")
    return [kind for kind in KINDS if names is None or kind.name in names]
