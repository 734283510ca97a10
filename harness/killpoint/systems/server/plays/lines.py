"""Plays that ``--full`` adds: a part is killed at a line of a path of the server's own code.

Each path is struck at the first, the middle and the last of the lines that the part passes as it
answers. Paths are named by the program of a server; one that names none lacks these plays.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from killpoint.scenario import AnyStep
from killpoint.systems.server.plays.named import END_IDLE, NamedPlay
from killpoint.systems.server.program import Topology
from killpoint.systems.server.steps import (
    ServerContinueLoad,
    ServerControl,
    ServerLine,
    ServerLoad,
    ServerPhase,
    ServerStart,
    ServerWaitAlive,
    ServerWaitGone,
)


class Path(msgspec.Struct, frozen=True):
    """A path of a server's code, and what a part does on it."""

    name: str
    part: str
    said: str
    ends: bool = False
    """True if a part takes the path while the server ends."""
    topology: Topology = "tensor-parallel"


PATHS = (
    Path("step", "core", "takes a step of the engine"),
    Path("schedule", "core", "schedules a step"),
    Path("blocks", "core", "gives blocks of the KV cache to a request"),
    Path("call", "core", "calls its workers"),
    Path("output", "core", "sends tokens to the front"),
    Path("message", "worker", "takes a message from its queue"),
    Path("run", "worker", "carries out a call"),
    Path("reply", "worker", "sends its reply"),
    Path("publish", "coordinator", "handles what its peers say", topology="data-parallel"),
    Path("shutdown", "core", "shuts down", ends=True),
    Path("worker-shutdown", "worker", "shuts down", ends=True),
)
_ALONG = {1: ("first", 0.0), 2: ("middle", 0.5), 3: ("last", 1.0)}
_BACK_WITHIN = 30.0
_UP: list[AnyStep] = [ServerStart(), ServerControl(), ServerLoad(), ServerPhase("decode")]


def line_plays() -> Iterator[NamedPlay]:
    """Yield a play for each path at three of its lines."""
    for path in PATHS:
        for number, (word, along) in _ALONG.items():
            yield NamedPlay(
                f"{path.part}-killed-at-{path.name}-{number}",
                f"the {path.part} is killed at the {word} line that it passes when it {path.said}",
                ("E6", "E5") if path.ends else ("E1", "E2", "E5", "E7"),
                _ending(path, along) if path.ends else _serving(path, along),
                path.topology,
            )


def _serving(path: Path, along: float) -> list[AnyStep]:
    return [
        *[
            *_UP,
            ServerLine(path.name, along),
            ServerContinueLoad(2.0),
            ServerWaitAlive(_BACK_WITHIN),
        ],
        *[ServerContinueLoad(3.0), *END_IDLE],
    ]


def _ending(path: Path, along: float) -> list[AnyStep]:
    start: list[AnyStep] = [ServerStart(ordinary=True, drains=True), *_UP[1:]]
    return [*start, ServerLine(path.name, along, first="sigterm"), ServerWaitGone()]
