"""The faults whose aftermath is measured, each a named play of whole servers."""

from __future__ import annotations

import msgspec

from killpoint.errors import BadUsage
from killpoint.scenario import Scenario
from killpoint.systems.server.plays.grid import FULL_PLAYS
from killpoint.systems.server.plays.named import PLAYS, NamedPlay


class Row(msgspec.Struct, frozen=True):
    """A fault under the name that it has here, and the play that does it."""

    name: str
    said: str
    play: str


ROWS: tuple[Row, ...] = (
    Row("worker-killed", "a worker is killed", "worker-killed-in-decode"),
    Row("worker-stopped-20s", "a worker stands still for 20 s", "worker-stopped-20s"),
    Row("worker-stopped", "a worker stands still for ever", "worker-stopped"),
    Row("core-killed", "the core is killed", "core-killed-in-decode"),
    Row("core-stopped-20s", "the core stands still for 20 s", "core-stopped-20s-in-decode"),
    Row("core-stopped", "the core stands still for ever", "core-stopped"),
    Row("front-killed", "the front is killed", "front-killed-in-decode"),
    Row("front-stopped-20s", "the front stands still for 20 s", "front-stopped-20s-in-decode"),
    Row("sigterm", "the front gets SIGTERM", "sigterm-in-decode"),
    Row("sigint", "the front gets SIGINT", "sigint-in-decode"),
    Row("shm-full", "/dev/shm is full", "shm-full"),
    Row("tmp-full", "the TMPDIR is full", "tmp-full"),
    Row("front-out-of-descriptors", "the front has no descriptor", "front-out-of-descriptors"),
    Row("worker-out-of-descriptors", "a worker has no descriptor", "worker-out-of-descriptors"),
    Row("replica-killed", "one of two replicas is killed", "replica-killed"),
    Row("replica-stopped", "one of two replicas stands still for ever", "replica-stopped"),
    Row("coordinator-killed", "the coordinator of two is killed", "coordinator-killed"),
)
"""Faults, in the order of the report."""
BY_NAME = {row.name: row for row in ROWS}
_PLAYS: dict[str, NamedPlay] = {play.name: play for play in (*PLAYS, *FULL_PLAYS)}


def chosen(names: list[str] | None) -> list[Row]:
    """Return the rows of these names, in their own order; None: all of them.

    Raises:
        BadUsage: no row has one of the names.
    """
    for name in names or []:
        if name not in BY_NAME:
            raise BadUsage(f"no fault {name!r}; expected one of: {', '.join(BY_NAME)}")
    return [row for row in ROWS if names is None or row.name in names]


def scenario(row: Row, seed: int) -> Scenario:
    """Return the scenario to play."""
    play = _PLAYS[row.play]
    return play.scenario(play.judges[0], seed)
