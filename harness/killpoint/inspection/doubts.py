"""Doubts about processes, whatever their threads wait for: each of them bars an all clear."""

from __future__ import annotations

from collections.abc import Mapping

from killpoint.inspection.model import Process
from killpoint.inspection.wait_graph import Graph
from killpoint.verdict import counted


def unseen(graph: Graph, processes: Mapping[int, Process]) -> list[str]:
    """Living processes of the tree of which no thread could be listed."""
    there = {pid for pid, _ in graph.nodes}
    return [
        f"pid {pid} ({process.command}): its threads cannot be listed"
        for pid, process in processes.items()
        if not process.dead and pid not in there
    ]


def zombies(graph: Graph, processes: Mapping[int, Process]) -> list[str]:
    """Return the dead that no parent has reaped, each with what its parent does."""
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


def ended(pid: int, before: Process, processes: Mapping[int, Process]) -> list[str]:
    """Return a line if the process in question is gone, and has left others behind."""
    if pid in processes:
        return []
    return [
        f"pid {pid} ({before.command}) ended while it was looked at; whether the"
        f" {counted(len(processes), 'processes')} that it has left behind"
        f" {'counts' if len(processes) == 1 else 'count'} on it cannot be seen"
    ]
