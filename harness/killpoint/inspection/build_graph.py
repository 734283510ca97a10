"""The wait graph of a process tree and of the other processes that its waits reach."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from killpoint.inspection.calls import Call, calls
from killpoint.inspection.holders import Holders
from killpoint.inspection.model import Edge, Process
from killpoint.inspection.processes import look
from killpoint.inspection.wait_graph import Graph, Node
from killpoint.inspection.wait_nodes import Builder, ProcessFacts

_FAR = 2000
"""Processes outside of the tree that are looked at at most."""


def weave(
    processes: Mapping[int, Process],
    others: Mapping[int, Process],
    before: Mapping[int, Sequence[Call]],
    edges: Sequence[Edge],
    holders: Holders,
    proc: Path = Path("/proc"),
) -> Graph:
    """Build the wait graph.

    Args:
        processes: The tree, by pid, with Python stacks.
        others: Other processes that are known, with their stacks.
        before: Threads of the tree at an earlier look: one that has not moved since then sleeps.
        edges: Waits that the rings show.
        holders: Holders of the machine's open files. Of processes that may not be looked into,
            those that descend from the tree are kept: a pipe is inherited.
        proc: The kernel's folder of processes.
    """
    now = {pid: calls(pid, proc) for pid in processes}
    earlier = {(c.pid, c.tid): c for each in before.values() for c in each}
    moved = frozenset(
        (c.pid, c.tid)
        for each in now.values()
        for c in each
        if (c.pid, c.tid) not in earlier or earlier[c.pid, c.tid].switches != c.switches
    )
    holders.hidden = [pid for pid in holders.hidden if _above(pid, proc) & set(processes)]
    cast = ProcessFacts({**others, **processes}, now, moved, edges, os.getpid(), earlier)
    for pid in processes:
        _ancestors(cast, pid, proc)
    found: list[Node] = []
    known: set[int] = set()
    todo = sorted(processes)
    while todo and len(known) < len(processes) + _FAR:
        builder = Builder(cast, holders, proc)
        made = builder.nodes(todo)
        known |= set(todo)
        found += made
        reached = {party.pid for node in made for party in node.parties} - known
        todo = sorted(reached)
        for pid in todo:
            _ancestors(cast, pid, proc)
            cast.calls.setdefault(pid, calls(pid, proc))
    return Graph(found, cast.processes)


def _above(pid: int, proc: Path) -> set[int]:
    """A process and all that it descends from."""
    found: set[int] = set()
    while pid and pid not in found:
        found.add(pid)
        process = look(pid, proc)
        pid = process.parent if process is not None else 0
    return found


def _ancestors(cast: ProcessFacts, pid: int, proc: Path) -> None:
    """Make it and all above it known."""
    while pid:
        process = cast.processes.get(pid) or look(pid, proc)
        if process is None:
            return
        cast.processes[pid] = process
        pid = process.parent
