"""One look at a running engine: two quick readings of rings and threads, stacks between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage
from killpoint.inspection import blame, rings, sockets
from killpoint.inspection.calls import calls
from killpoint.inspection.holders import Holders
from killpoint.inspection.picture import Picture, Process
from killpoint.inspection.processes import tree
from killpoint.inspection.regions import shared
from killpoint.inspection.stacks import stacks
from killpoint.inspection.weaving import unseen, weave, zombies

_APART = 0.3
"""Seconds between two readings of the flags: what did not change in that time did not move."""


def look(
    pid: int, pause: Callable[[float], None] = time.sleep, proc: Path = Path("/proc")
) -> Picture:
    """What the process and all below it are doing.

    Args:
        pid: The engine's; whatever it has begun is looked at, too.
        pause: How to let time go by between two readings.
        proc: Where the kernel tells of processes.

    Raises:
        BadUsage: there is no such process.
    """
    began = time.monotonic()
    bare = tree(pid, proc)
    if not bare:
        raise BadUsage(f"there is no process {pid}")
    pids = [process.pid for process in bare]
    known = rings.decoders()
    before = {at.name: view for at, view in rings.views(shared(pids, proc), known, proc)}
    threads_before = {each: calls(each, proc) for each in pids}
    first = time.monotonic()
    found = stacks([process.pid for process in bare if not process.dead])
    pause(max(0.0, _APART - (time.monotonic() - first)))
    processes: dict[int, Process] = {}
    for process in bare:
        now = next(iter(tree(process.pid, proc)), None)
        if now is not None:
            threads = found.get(process.pid, ())
            processes[process.pid] = msgspec.structs.replace(now, threads=threads)
    seen = rings.views(shared(pids, proc), known, proc)
    parties = rings.rings(seen, processes)
    unmoved = frozenset(at.name for at, view in seen if before.get(at.name) == view)
    waits = blame.edges(processes, parties)
    graph = weave(processes, threads_before, waits, Holders(proc), proc)
    vain = graph.vain(list(processes))
    unsure = [*zombies(graph, processes), *unseen(graph, processes), *graph.unsure(list(processes))]
    return Picture(
        pid,
        tuple(processes.values()),
        parties,
        tuple(sockets.lines(list(processes))),
        tuple(waits),
        tuple(blame.culprits(processes, parties, waits, unmoved, vain)),
        tuple(unsure),
        graph.resting(list(processes)),
        round(time.monotonic() - began, 3),
    )
