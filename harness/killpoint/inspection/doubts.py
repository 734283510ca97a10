"""Doubts about processes, whatever their threads wait for: each of them bars an all clear."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from killpoint.inspection.graph import Graph
from killpoint.inspection.holders import Holders
from killpoint.inspection.picture import Process
from killpoint.inspection.processes import adopted


def unseen(graph: Graph, processes: Mapping[int, Process]) -> list[str]:
    """Living processes of the tree of which no thread could be listed."""
    there = {pid for pid, _ in graph.nodes}
    return [
        f"pid {pid} ({process.command}): its threads cannot be listed"
        for pid, process in processes.items()
        if not process.dead and pid not in there
    ]


def zombies(graph: Graph, processes: Mapping[int, Process]) -> list[str]:
    """The dead whom nobody has reaped, each with what its parent does."""
    found: list[str] = []
    for pid, process in processes.items():
        if process.dead:
            parent = graph.nodes.get((process.parent, process.parent))
            doing = graph.sentence(parent) if parent is not None else f"pid {process.parent}"
            found.append(
                f"pid {pid} ({process.command}) is dead, and its parent has not reaped it: {doing};"
                " whether anybody still counts on it cannot be seen"
            )
    return found


def orphans(
    processes: Mapping[int, Process], holders: Holders, proc: Path = Path("/proc")
) -> list[str]:
    """Those whom another process has adopted, and who have pipes both ways that nobody else has.

    A child of ``multiprocessing`` has such pipes once its parent is dead. What it waits for then,
    such as a request by ZeroMQ, may look the same as before. A server that was left by its shell is
    adopted, too, but has no pipes to it, or one that was left open by mistake.
    """
    found: list[str] = []
    for pid, process in processes.items():
        lost = [] if process.dead or not adopted(process, proc) else holders.lost(pid)
        if {file.way for file in lost} == {"r", "w"}:
            names = ", ".join(dict.fromkeys(file.text for file in lost[:_SHOWN]))
            found.append(
                f"pid {pid} ({process.command}) was begun by a process that is gone, and is left to"
                f" pid {process.parent}: nobody has the other end of its {names}; whether it waits"
                " for that one, or for others that are gone, cannot be seen"
            )
    return found


_SHOWN = 3


def ended(pid: int, before: Process, processes: Mapping[int, Process]) -> list[str]:
    """That the process in question is gone, while others that it had begun are there."""
    if pid in processes:
        return []
    return [
        f"pid {pid} ({before.command}) ended while it was looked at; whether the"
        f" {len(processes)} process(es) that it has left behind count on it cannot be seen"
    ]
