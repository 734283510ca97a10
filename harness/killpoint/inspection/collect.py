"""Inspection of a running engine: two quick readings of rings and threads, stacks in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from killpoint.errors import BadUsage
from killpoint.inspection import evidence, processes, ring_waits, rings, sockets
from killpoint.inspection.build_graph import weave
from killpoint.inspection.calls import calls
from killpoint.inspection.doubts import ended, unseen, zombies
from killpoint.inspection.holders import Holders
from killpoint.inspection.model import Picture, Process, Thread
from killpoint.inspection.regions import Region, shared
from killpoint.inspection.stacks import stacks
from killpoint.inspection.standstill import Contents, Suspect, standing, suspects

_APART = 0.3
"""Seconds between two readings of the flags: what did not change in that time did not move."""
_PATIENCE = 1.0
"""Seconds until a second look, where only time shows whether a ring stands still."""


def look(
    pid: int, pause: Callable[[float], None] = time.sleep, proc: Path = Path("/proc")
) -> Picture:
    """Return what the process and all below it are doing.

    If no party is to blame by itself, and one may be if nothing moves for longer, the tree is read
    once more, a second later.

    Args:
        pid: The engine's; its descendants are inspected, too.
        pause: Waits for so many seconds between two readings.
        proc: The kernel's folder of processes.

    Raises:
        BadUsage: there is no such process, or it ended meanwhile.
    """
    began = time.monotonic()
    first = _read(pid, pause, proc)
    picture = first.picture
    if first.suspects and not picture.culprits:
        at = time.monotonic()
        pause(_PATIENCE)
        second = _read(pid, pause, proc)
        picture, seconds = second.picture, time.monotonic() - at + _APART
        if not picture.culprits:
            stood = standing(
                first.suspects, second.suspects, first.contents, second.contents, seconds
            )
            named = tuple(f"pid {culprit.pid} (" for culprit in stood)
            unsure = tuple(text for text in picture.unsure if not text.startswith(named))
            picture = msgspec.structs.replace(picture, culprits=tuple(stood), unsure=unsure)
    return msgspec.structs.replace(picture, seconds=round(time.monotonic() - began, 3))


class _Reading(NamedTuple):
    picture: Picture
    suspects: list[Suspect]
    contents: Contents


def _read(pid: int, pause: Callable[[float], None], proc: Path) -> _Reading:
    """Two readings of flags and threads, a moment apart, and stacks between them."""
    bare = processes.tree(pid, proc)
    if not bare:
        raise BadUsage(f"there is no process {pid}")
    pids = [process.pid for process in bare]
    known = rings.decoders()
    first_seen = rings.views(shared(pids, proc), known, proc)
    before = rings.contents(first_seen, proc)
    far = _strangers([at for at, _ in first_seen], pids, proc)
    threads_before = {each: calls(each, proc) for each in pids}
    first = time.monotonic()
    found = stacks([process.pid for process in [*bare, *far] if not process.dead])
    pause(max(0.0, _APART - (time.monotonic() - first)))
    inside, others = _again(bare, found, proc), _again(far, found, proc)
    if not inside:
        raise BadUsage(f"process {pid} ended while it was looked at")
    everybody = inside | others
    seen = rings.views(shared(everybody, proc), known, proc)
    seen = [(at, view) for at, view in seen if set(at.mappers) & set(inside)]
    parties = rings.rings(seen, everybody)
    after = rings.contents(seen, proc)
    unmoved = frozenset(name for name, what in after.items() if before.get(name) == what)
    moving = frozenset(name for name in after if name in before) - unmoved
    waits = [e for e in ring_waits.edges(everybody, parties) if e.waiter in inside]
    holders = Holders(proc)
    graph = weave(inside, others, threads_before, waits, holders, proc)
    vain = graph.vain(list(inside))
    running = graph.running()
    kin = {**processes.above(bare[0], proc), **inside}
    evident = [
        *evidence.orphans(kin, holders, proc),
        *evidence.starved(inside, proc),
        *evidence.deserted(inside, graph.peerless(list(inside)), proc),
    ]
    culprits = ring_waits.culprits(
        everybody, parties, waits, unmoved, vain, moving, running, evident
    )
    computing = ring_waits.computing(everybody, waits, moving, running)
    unsure = [
        *ended(pid, bare[0], inside),
        *ring_waits.unsure(computing),
        *rings.ownerless(parties),
        *zombies(graph, inside),
        *unseen(graph, inside),
        *graph.unsure(list(inside)),
        *graph.beyond(list(inside), {culprit.pid for culprit in culprits}),
    ]
    if not culprits and not unsure:
        unsure = graph.unexplained(list(inside))
    picture = Picture(
        pid,
        tuple(inside.values()),
        parties,
        tuple(sockets.lines(list(inside))),
        tuple(waits),
        tuple(culprits),
        tuple(unsure),
        graph.resting(list(inside)),
    )
    still = [edge for edge in waits if edge.ring not in moving]
    sent = {ring.name: ring.sent for ring in parties}
    found = suspects(everybody, still, computing, graph.mains(), sent)
    return _Reading(picture, found, after)


def _strangers(regions: Sequence[Region], pids: Sequence[int], proc: Path) -> list[Process]:
    """Processes outside of the tree that map the same rings."""
    if not regions:
        return []
    holders = Holders(proc)
    mappers = {pid for at in regions for pid in holders.mappers(at.inode)} - set(pids)
    found = (processes.look(pid, proc) for pid in sorted(mappers))
    return [process for process in found if process is not None]


def _again(
    bare: Sequence[Process], found: Mapping[int, tuple[Thread, ...]], proc: Path
) -> dict[int, Process]:
    """The same processes as they are now, with their stacks; without those that are gone."""
    now = ((process.pid, processes.look(process.pid, proc)) for process in bare)
    return {
        pid: msgspec.structs.replace(process, threads=found.get(pid, ()))
        for pid, process in now
        if process is not None
    }
