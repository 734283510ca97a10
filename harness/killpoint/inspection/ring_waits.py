"""Waits and culprits that rings show: from what was seen to the party all wait for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from killpoint.inspection.model import Culprit, Edge, Process, Ring
from killpoint.inspection.waits import COLLECTIVE, GROUP, MESSAGE, SLOT
from killpoint.verdict import counted, counted_doing

Computing = tuple[Process, str, tuple[int, ...]]
"""A process that runs, what it does, and who waits for it."""


def edges(processes: Mapping[int, Process], rings: Sequence[Ring]) -> list[Edge]:
    """Return every wait that can be seen."""
    found: list[Edge] = []
    for process in processes.values():
        if process.stopped or process.dead:
            continue
        if process.waits(SLOT):
            found += _for_a_slot(process, rings)
        if process.waits(MESSAGE):
            found += _for_a_message(process, rings, _ancestors(process, processes))
        collective = process.waits(COLLECTIVE, GROUP)
        if collective:
            found += _in_a_collective(process, collective.waits, processes, rings)
    return found


def _for_a_slot(process: Process, rings: Sequence[Ring]) -> list[Edge]:
    found: list[Edge] = []
    for ring in rings:
        if ring.writer == process.pid and any(slot.unread for slot in ring.slots):
            most = max(ring.lag(r) for r in range(ring.readers))
            for reader in range(ring.readers):
                if ring.lag(reader) == most:
                    found.append(_unread(process, ring, reader))
    return found


def _unread(process: Process, ring: Ring, reader: int) -> Edge:
    behind = [slot for slot in ring.slots if reader in slot.unread]
    oldest = min(behind, key=lambda slot: slot.number if slot.number is not None else slot.index)
    number = f" (message {oldest.number})" if oldest.number is not None else ""
    pid = ring.reader_pids.get(reader)
    why = (
        f"reader {reader} of {ring.short} has not read slot {oldest.index}{number}, nor"
        f" {len(behind) - 1} more of {len(ring.slots)}"
        if len(behind) > 1
        else f"reader {reader} of {ring.short} has not read slot {oldest.index}{number}"
    )
    if pid is None and ring.missing:
        maps = "maps" if ring.missing == 1 else "map"
        why += f"; {ring.missing} of its {counted(ring.readers, 'readers')} no longer {maps} it"
    return Edge(process.pid, pid, why, ring=ring.name)


def _ancestors(process: Process, processes: Mapping[int, Process]) -> set[int]:
    found: set[int] = set()
    at: Process | None = process
    while at is not None and at.parent not in found:
        found.add(at.parent)
        at = processes.get(at.parent)
    return found


def _for_a_message(process: Process, rings: Sequence[Ring], ancestors: set[int]) -> list[Edge]:
    """Return waits for a message of its rings; a ring that has one is a lost wake-up instead."""
    found: list[Edge] = []
    for ring in rings:
        if process.pid not in ring.mappers or ring.writer == process.pid:
            continue
        mine = [r for r, pid in ring.reader_pids.items() if pid == process.pid]
        if any(ring.lag(reader) for reader in mine):
            continue  # it is overlooked, or not looked at: see `overlooked`
        if ring.writer is None and not ring.missing:
            continue  # all are there, and it cannot be told which of them writes
        writer = ring.writer if ring.writer in ring.mappers else None
        gone = "" if writer is not None else ", whose writer is gone or unknown"
        why = f"a message in {ring.short}{gone}"
        found.append(Edge(process.pid, writer, why, writer in ancestors, ring.name))
    return found


def overlooked(
    processes: Mapping[int, Process], ring: Ring, rings: Sequence[Ring] = ()
) -> list[tuple[int, int]]:
    """(pid, reader) of those who wait for a message of this ring while one is there for them.

    Where ranks are but guessed, more must wait than there are readers without a message. Who reads
    another ring in which there is nothing for it may wait for that one.
    """
    readers = [pid for pid in ring.mappers if pid != ring.writer and pid in processes]
    waiting = [pid for pid in readers if processes[pid].waits(MESSAGE) and _asleep(processes[pid])]
    behind = [r for r in range(ring.readers) if ring.lag(r)]
    if ring.guessed and len(waiting) <= ring.readers - len(behind) - len(ring.closed):
        return []
    elsewhere = {
        pid
        for other in rings
        for reader, pid in other.reader_pids.items()
        if other.name != ring.name and other.writer in other.mappers and not other.lag(reader)
    }
    return [
        (pid, r)
        for r in behind
        for pid in waiting
        if ring.reader_pids.get(r) == pid and pid not in elsewhere
    ]


def _asleep(process: Process) -> bool:
    return process.state in ("S", "D") and not process.stopped


def _in_a_collective(
    process: Process, what: str, processes: Mapping[int, Process], rings: Sequence[Ring]
) -> list[Edge]:
    name = what.partition(" ")[2] or "a collective"
    absent = [
        peer
        for peer in _peers(process, processes, rings)
        if peer.stopped or peer.dead or not peer.waits(COLLECTIVE, GROUP)
    ]
    widest = _widest(process, rings)
    ring = widest.name if widest is not None else ""  # what comes by it comes after the collective
    return [Edge(process.pid, peer.pid, f"it has not entered {name}", ring=ring) for peer in absent]


def _widest(process: Process, rings: Sequence[Ring]) -> Ring | None:
    """The ring with the most readers of those that it reads."""
    shared = [r for r in rings if process.pid in r.mappers and r.writer != process.pid]
    return max(shared, key=lambda ring: ring.readers, default=None)


def _peers(
    process: Process, processes: Mapping[int, Process], rings: Sequence[Ring]
) -> list[Process]:
    """Return its fellow workers: readers of the same ring, or else its siblings that run Python."""
    widest = _widest(process, rings)
    if widest is not None and widest.readers > 1:
        pids = [pid for pid in widest.mappers if pid != widest.writer]
    else:
        pids = [p.pid for p in processes.values() if p.parent == process.parent and p.threads]
    return [processes[pid] for pid in pids if pid != process.pid and pid in processes]


def culprits(
    processes: Mapping[int, Process],
    rings: Sequence[Ring],
    found: Sequence[Edge],
    unmoved: frozenset[str] = frozenset(),
    vain: Sequence[Culprit] = (),
    moving: frozenset[str] = frozenset(),
    running: frozenset[int] = frozenset(),
    evident: Sequence[Culprit] = (),
) -> list[Culprit]:
    """Return the culprits, the gravest first.

    Args:
        processes: By pid.
        rings: With their parties.
        found: :func:`edges`.
        unmoved: Names of rings whose flags were the same at two looks: a sleeper in one that has
            a message for it was not woken, and is not just about to be.
        vain: Culprits that the wait graph names, whatever the rings show.
        moving: Names of rings that have changed between two looks: a party that is waited for
            there goes on.
        running: Processes whose main thread runs: see :func:`computing`.
        evident: Culprits that :mod:`killpoint.inspection.evidence` names.
    """
    out: list[tuple[int, int, Culprit]] = []
    for process in processes.values():
        waiters = _waiters(process.pid, found)
        if process.stopped:
            out.append((0, -len(waiters), _culprit(process, "is stopped by a signal", waiters)))
        elif process.dead and waiters:
            out.append((0, -len(waiters), _culprit(process, "is dead", waiters)))
    for ring in rings:
        if ring.name in unmoved:
            for pid, reader in overlooked(processes, ring, rings):
                lag = ring.lag(reader)
                are = "is" if lag == 1 else "are"
                text = (
                    f"sleeps though {counted(lag, 'messages')} in {ring.short} {are} there for it"
                    f" (reader {reader}): its wake-up was lost"
                )
                out.append((1, 0, _culprit(processes[pid], text, _waiters(pid, found))))
    for edge in found:
        if edge.on is None:
            names = tuple(sorted({e.waiter for e in found if e.why == edge.why}))
            out.append((2, -len(names), Culprit(None, f"nobody that is there: {edge.why}", names)))
    out += [(2, -len(culprit.waiters), culprit) for culprit in evident]
    out += [(3, -len(culprit.waiters), culprit) for culprit in vain]
    for process in _busy(processes, found, moving):
        if process.pid not in running:
            waiters = _waiters(process.pid, found)
            out.append((4, -len(waiters), _culprit(process, _doing(process), waiters)))
    merged: dict[tuple[int | None, str], Culprit] = {}
    for *_, culprit in sorted(out, key=lambda item: item[:2]):
        known = merged.setdefault((culprit.pid, culprit.sentence), culprit)
        waiters = tuple(sorted({*known.waiters, *culprit.waiters}))
        merged[culprit.pid, culprit.sentence] = msgspec.structs.replace(known, waiters=waiters)
    return list(merged.values())


def computing(
    processes: Mapping[int, Process],
    found: Sequence[Edge],
    moving: frozenset[str],
    running: frozenset[int],
) -> list[Computing]:
    """Return each process that runs and is waited for, what it does, and its waiters.

    It may come to an end, or not.
    """
    return [
        (process, _doing(process), _waiters(process.pid, found))
        for process in _busy(processes, found, moving)
        if process.pid in running
    ]


def unsure(running: Sequence[Computing]) -> list[str]:
    """The same in words."""
    return [
        f"pid {process.pid} ({process.command}) runs, and {doing};"
        f" {counted_doing(len(waiters), 'processes', 'wait')} for it, and whether it comes to an"
        " end cannot be seen"
        for process, doing, waiters in running
    ]


def _busy(
    processes: Mapping[int, Process], found: Sequence[Edge], moving: frozenset[str]
) -> list[Process]:
    """Return processes that wait for none, and that another awaits in vain between two looks.

    A reader of several rings, as of several ranks of which one answers, goes on by any of them.
    """
    blocked = {edge.waiter for edge in found}
    served = {edge.waiter for edge in found if edge.ring in moving}
    wanted = [e.on for e in found if e.on is not None and not e.idle and e.waiter not in served]
    there = [processes[pid] for pid in dict.fromkeys(wanted) if pid in processes]
    return [p for p in there if not (p.stopped or p.dead or p.pid in blocked)]


def _doing(process: Process) -> str:
    main = next((t for t in process.threads if t.name == "MainThread"), None)
    return f"is at {main.at}" if main else "runs no Python"


def _culprit(process: Process, what: str, waiters: tuple[int, ...]) -> Culprit:
    return Culprit(process.pid, f"pid {process.pid} ({process.command}) {what}", waiters)


def _waiters(pid: int, found: Sequence[Edge]) -> tuple[int, ...]:
    """Return all processes that wait for it, directly or through others."""
    reached: set[int] = set()
    todo = [pid]
    while todo:
        at = todo.pop()
        for edge in found:
            if edge.on == at and edge.waiter not in reached and edge.waiter != pid:
                reached.add(edge.waiter)
                todo.append(edge.waiter)
    return tuple(sorted(reached))
