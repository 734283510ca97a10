"""Standstill of rings: suspects that only time can tell from a process in a long step.

A party that computes while others wait for it may be in a long step, and a worker that waits for
work while its parent waits for its answer may just have sent it. Both are suspects; one that is
still a suspect a second later, with not a flag of its rings changed, is named. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from killpoint.inspection.model import Culprit, Edge, Process
from killpoint.inspection.wait_graph import Node

Contents = Mapping[str, tuple[object, ...]]
"""Contents of a ring that change with each message, by the ring's name."""


class Suspect(NamedTuple):
    """A process that may be the one that all others wait for."""

    pid: int
    rings: frozenset[str]
    """Rings in which nothing may move meanwhile."""
    sentence: str
    waiters: tuple[int, ...]
    doubt: str
    """Text on what cannot be seen of it all the same."""
    at: str = ""
    """The function that it is in."""


def suspects(
    processes: Mapping[int, Process],
    edges: Sequence[Edge],
    computing: Sequence[tuple[Process, str, tuple[int, ...]]],
    mains: Mapping[int, Node],
    sent: Mapping[str, int] | None = None,
) -> list[Suspect]:
    """Return the suspects of one reading.

    Args:
        processes: By pid.
        edges: Waits that rings show.
        computing: Each process that runs and is waited for, what it does, and its waiters.
        mains: The main thread of each process.
        sent: How many messages each ring has had, as far as it shows: of several that a party
            may wait at, one that had fewer than another is not it.
    """
    found = [
        Suspect(
            process.pid,
            _awaited(process.pid, edges),
            f"pid {process.pid} ({process.command}) runs, and {doing}",
            waiters,
            "a long step, or a loop without an end",
        )
        for process, doing, waiters in computing
    ]
    found += _unanswered(processes, edges, sent or {})
    known = {suspect.pid for suspect in found}
    return [*found, *(each for each in _absent(processes, edges, mains) if each.pid not in known)]


def _awaited(pid: int, edges: Sequence[Edge]) -> frozenset[str]:
    """Return the rings at which its waiters wait, for it or for others.

    One of them may be a rank that never answers, whose ring stands still at all times.
    """
    waiters = {edge.waiter for edge in edges if edge.on == pid}
    return frozenset(edge.ring for edge in edges if edge.ring and edge.waiter in waiters)


def _absent(
    processes: Mapping[int, Process], edges: Sequence[Edge], mains: Mapping[int, Node]
) -> list[Suspect]:
    """Return processes that do not rest, while others rest and await a message from them.

    A loop that serves rests in a poll, or at a queue; in a computation, a long sleep or at a bare
    lock it does not.
    """
    found: list[Suspect] = []
    for pid in dict.fromkeys(edge.on for edge in edges if edge.idle and edge.on in processes):
        process, node = processes[pid or 0], mains.get(pid or 0)
        main = next((each for each in process.threads if each.name == "MainThread"), None)
        if node is None or main is None or main.waits or process.stopped or process.dead:
            continue
        doing, doubt = _doing(node)
        if doing:
            waiters = tuple(e.waiter for e in edges if e.on == pid)
            text = f"pid {pid} ({process.command}) {doing}, at {main.at}"
            at = main.at.partition(" (")[0]
            rings = _awaited(process.pid, edges)
            found.append(Suspect(process.pid, rings, text, waiters, doubt, at))
    return found


def _doing(node: Node) -> tuple[str, str]:
    """Return what a busy thread does, and what cannot be seen; nothing: it may be at rest."""
    if node.runs:
        return "runs", "a long step, or a loop without an end"
    if node.what.startswith("sleeps for ") and "moment" not in node.what:
        return node.what, "whether it means to cannot be seen"
    if node.what.startswith("waits for a lock"):
        return "waits for a lock", "who holds it cannot be seen"
    return "", ""


def _unanswered(
    processes: Mapping[int, Process], edges: Sequence[Edge], sent: Mapping[str, int]
) -> list[Suspect]:
    """Return, of two that wait for each other, the one that rests and owes the other an answer.

    Of several that may, those are left out that answered less by more than the lost answer, and
    who answered one less comes first.
    """
    rests = {(edge.waiter, edge.on): edge for edge in edges if edge.idle and edge.ring}
    asking = [edge for edge in edges if edge.ring and not edge.idle]
    found: list[Suspect] = []
    for waiter in dict.fromkeys(edge.waiter for edge in asking):
        mine = [edge for edge in asking if edge.waiter == waiter]
        mine.sort(key=lambda edge: sent.get(edge.ring, 0))
        most = sent.get(mine[-1].ring, 0)
        least = max(most - 1, min(most, 1))
        asked = {e.on: e for e in mine if sent.get(e.ring, 0) >= least and (e.on, waiter) in rests}
        for pid, edge in asked.items():
            if pid is None or pid not in processes:
                continue
            others = ", ".join(f"pid {other}" for other in asked if other != pid)
            text = (
                f"pid {pid} ({processes[pid].command}) has read all that pid {waiter} has sent it,"
                " and waits for more, while that one waits for its answer"
                + (f", or for that of {others}" if others else "")
            )
            rings = frozenset((edge.ring, rests[pid, waiter].ring))
            found.append(Suspect(pid, rings, text, (waiter,), "the answer was lost, or never sent"))
    return found


def standing(
    before: Sequence[Suspect],
    now: Sequence[Suspect],
    then: Contents,
    since: Contents,
    seconds: float,
) -> list[Culprit]:
    """Return the suspects of both readings in whose rings nothing has moved.

    Args:
        before: Suspects of the first reading.
        now: Suspects of the second reading.
        then: Contents of the rings at the first reading.
        since: Contents of the rings at the second reading.
        seconds: Time between the two.
    """
    known = {_key(suspect) for suspect in before}
    return [
        Culprit(
            suspect.pid,
            f"{suspect.sentence}; nothing has moved in its rings for {seconds:.1f} s:"
            f" {suspect.doubt}",
            suspect.waiters,
            doubt=suspect.doubt,
        )
        for suspect in now
        if _key(suspect) in known
        and suspect.rings
        and all(name in then and then[name] == since.get(name) for name in suspect.rings)
    ]


def _key(suspect: Suspect) -> tuple[object, ...]:
    return suspect.pid, suspect.rings, suspect.doubt, suspect.at
