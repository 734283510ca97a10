"""The catalogue: what is judged, under which id, how firmly, and how much evidence it takes."""

from __future__ import annotations

from typing import cast

from killpoint import extensions
from killpoint.errors import BadUsage
from killpoint.invariant import Invariant, Level
from killpoint.systems.coordinator import invariants as coordinator
from killpoint.systems.engine import invariants as engine
from killpoint.systems.group import invariants as group
from killpoint.systems.pipe import invariants as pipe
from killpoint.systems.pool import invariants as pool
from killpoint.systems.queue import invariants as queue
from killpoint.systems.server import invariants as server

_QUEUE = ("queue",)

_EVERYWHERE: tuple[Invariant, ...] = (
    Invariant(
        "S1",
        "Nothing listens wider than asked for; the default is loopback or ipc.",
        _QUEUE,
        {"cases": 3, "looks": 6},
        instead="server",
        then={"cases": 1, "looks": 4},
    ),
    Invariant(
        "S2",
        "ipc paths, sockets and segments are their owner's alone, under any umask.",
        _QUEUE,
        {"cases": 2, "paths": 4},
        instead="server",
        then={"cases": 1, "paths": 1},
    ),
    Invariant(
        "S3",
        "A stranger who reaches a TCP port can neither read a message nor have one decoded; keys"
        " never appear in a repr, log, environment or command line.",
        _QUEUE,
        {"cases": 4},
        instead="server",
        then={"cases": 1},
    ),
    Invariant(
        "S4",
        "A stranger who floods, stalls or half-opens costs no message and no unbounded memory,"
        " descriptors or log, at every listener of the process tree, with 1,024 descriptors.",
        _QUEUE,
        {"cases": 1, "floods": 1},
    ),
    Invariant(
        "L1",
        "After the last party's exit + 5 s nothing of ours remains; only what every party's"
        " SIGKILL left behind may wait for the next start, which removes it.",
        _QUEUE,
        {"cases": 3, "plays": 5},
        instead="server",
    ),
)
"""What is asked of every system: security, and that nothing is left behind."""

_OURS: tuple[Invariant, ...] = (
    *queue.INVARIANTS,
    *group.INVARIANTS,
    *pool.INVARIANTS,
    *pipe.INVARIANTS,
    *coordinator.INVARIANTS,
    *engine.INVARIANTS,
    *server.INVARIANTS,
    *_EVERYWHERE,
)


def _added() -> tuple[Invariant, ...]:
    """Return the invariants of packages outside the tree.

    Raises:
        BadUsage: one has an id that there is already.
    """
    added = extensions.everything("checks", "INVARIANTS")
    for name in sorted(extensions.entries("systems")):
        added.append(vars(extensions.part(name, "invariants"))["INVARIANTS"])
    found = [item for items in added for item in cast("tuple[Invariant, ...]", items)]
    known = {item.id for item in _OURS}
    for item in found:
        if item.id in known:
            raise BadUsage(f"two invariants have the id {item.id}: {item.clause}")
        known.add(item.id)
    return tuple(found)


CATALOGUE: tuple[Invariant, ...] = (*_OURS, *_added())
"""Every clause, those that packages outside the tree add last."""
BY_ID = {invariant.id: invariant for invariant in CATALOGUE}


def invariant(id: str) -> Invariant:
    """The invariant with this id.

    Raises:
        BadUsage: there is none.
    """
    found = BY_ID.get(id)
    if found is None:
        raise BadUsage(f"unknown invariant {id!r}; expected one of: {', '.join(BY_ID)}")
    return found


def level_of(id: str, kind: str) -> Level:
    """Return the level of the clause that a violation of this kind breaks."""
    found = BY_ID.get(id)
    if found is None:
        return "MUST"
    return "SHOULD" if kind == "late" and found.bound else found.level
