"""Waits for memory: locks, conditions and semaphores, of one process or shared by several."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from killpoint.inspection.calls import SHORT, Call, memory
from killpoint.inspection.holders import Holders, Mapped
from killpoint.inspection.model import Process, Thread
from killpoint.inspection.wait_graph import Fate, Node, Party

_COMMAND, _PRIVATE = 0x7F, 0x80
_WAIT, _WAIT_BITSET, _LOCK_PI = 0, 9, (6, 13)
_CONTENDED = 2
_OWNER = 8
"""Bytes from a lock of glibc's to the number of the thread that holds it."""
_TID = 0x3FFF_FFFF
_POOLS = (
    "_worker (concurrent/futures/thread.py", "_feed (multiprocessing/queues.py",
    "_handle_tasks (multiprocessing/pool.py", "_monitor (logging/handlers.py",
    "worker (multiprocessing/pool.py",
)  # fmt: skip
_EVENTS = ("wait (threading.py", "get (queue.py", "put (queue.py")
_COMES = re.compile(r"\.(get|wait)\(")
"""The source line of a wait in C, such as that of a ``SimpleQueue``."""
_JOINS = ("_wait_for_tstate_lock (threading.py", "_shutdown (threading.py", "join (threading.py")


def node(
    bare: Node,
    call: Call,
    thread: Thread | None,
    calls: Mapping[int, list[Call]],
    processes: Mapping[int, Process],
    holders: Holders,
    proc: Path,
) -> Node:
    """Return the node of a thread that sleeps until a word of memory changes.

    Args:
        bare: Its node, without the wait.
        call: Its ``futex``.
        thread: Its Python stack.
        calls: Those of all processes that are known.
        processes: All, with their Python stacks.
        holders: Mappings of shared memory.
        proc: The kernel's folder of processes.
    """
    make = msgspec.structs.replace
    own = calls.get(bare.pid, [])
    tids = {other.tid for other in own}
    command, private = call.args[1] & _COMMAND, bool(call.args[1] & _PRIVATE)
    if not private and command in (_WAIT, _WAIT_BITSET) and call.args[2] in tids - {bare.tid}:
        what = f"waits for the end of its thread {call.args[2]}"
        return make(bare, what=what, parties=(Party(bare.pid, call.args[2]),), waits=True)
    owner = _owner(call, command, proc)
    if owner in tids - {bare.tid}:
        what = f"waits for a mutex that its thread {owner} holds"
        return make(bare, what=what, parties=(Party(bare.pid, owner),), waits=True)
    if not private:
        shared = holders.mapping(bare.pid, call.args[0])
        if shared is not None:
            return _shared(bare, call, shared, calls, processes, holders)
    return _within(bare, call, thread, own, processes.get(bare.pid), proc)


def _owner(call: Call, command: int, proc: Path) -> int:
    """Return the id of the thread that holds a mutex; 0: it is no mutex, or has no owner in it."""
    try:
        if command in _LOCK_PI:
            return struct.unpack("i", memory(call.pid, call.args[0], 4, proc))[0] & _TID
        if command == _WAIT and call.args[2] == _CONTENDED:
            return struct.unpack("i", memory(call.pid, call.args[0] + _OWNER, 4, proc))[0]
    except (OSError, struct.error):
        pass
    return 0


def _within(
    bare: Node,
    call: Call,
    thread: Thread | None,
    own: Sequence[Call],
    process: Process | None,
    proc: Path,
) -> Node:
    """Complete the node of a wait for another thread of its process, which is not known."""
    make = msgspec.structs.replace
    others = [c for c in own if c.tid != bare.tid and not _beside(c, call) and c.state != "Z"]
    rests, joins = _idiom(thread, process)
    if joins and process is not None:
        runs_python = {each.tid for each in process.threads}
        others = [c for c in others if c.tid in runs_python]  # no native thread is joined
    event = not rests and not joins and _for_an_event(thread)
    python = {each.tid for each in process.threads} if process is not None else set[int]()
    parties = tuple(
        Party(
            bare.pid,
            c.tid,
            "" if rests or joins or (event and c.tid in python and not _beats(c, proc))
            else "which thread would end that cannot be seen",
        )
        for c in others
    )  # fmt: skip
    what = (
        "waits for work" if rests else "waits for a thread" if joins
        else "waits for an event or a queue of its own process" if event
        else "waits for a lock, a condition or an event of its own process"
    )  # fmt: skip
    alone = "" if others else "no other thread of it is left that could end that"
    return make(bare, what=what, parties=parties, every=joins, alone=alone, waits=True)


def _beside(other: Call, call: Call) -> bool:
    """Return whether a thread waits for the same word, and therefore does not hold it."""
    return other.name == "futex" and other.args[:1] == call.args[:1]


def _idiom(thread: Thread | None, process: Process | None) -> tuple[bool, bool]:
    """Return whether a thread rests in a pool, and whether it waits for another thread's end."""
    if thread is None:
        return bool(process and any(t.tid for t in process.threads)), False
    frames = [frame.partition(":")[0] for frame in thread.frames]
    rests = any(frame.endswith(_POOLS) for frame in frames)
    joins = any(frame.endswith(_JOINS) for frame in frames[:2])
    return rests, joins


def _beats(call: Call, proc: Path) -> bool:
    """Return whether a thread sleeps for moments, at nothing: a heartbeat of unknown purpose."""
    return call.limit(proc) <= SHORT and not call.files(proc)


def _for_an_event(thread: Thread | None) -> bool:
    """Return whether a thread waits until an event comes, and not until a lock is free."""
    if thread is None:
        return False
    frames = [frame.partition(":")[0] for frame in thread.frames[:3]]
    return any(frame.endswith(_EVENTS) for frame in frames) or bool(_COMES.search(thread.line))


def _shared(
    bare: Node,
    call: Call,
    where: Mapped,
    calls: Mapping[int, list[Call]],
    processes: Mapping[int, Process],
    holders: Holders,
) -> Node:
    """Complete the node of a wait for any process that maps the memory: the holder is unknown."""
    there = [p for p in where.pids if p == bare.pid or p not in processes or not processes[p].dead]
    beside = {(c.pid, c.tid) for pid in there for c in calls.get(pid, []) if _at(c, where, holders)}
    free: dict[int, list[int]] = {}
    for pid in there:
        theirs = calls.get(pid, [])
        free[pid] = [c.tid for c in theirs if (pid, c.tid) not in beside]
        if not theirs:
            free[pid] = [pid]
    others = [pid for pid in there if pid != bare.pid and free[pid]]
    named = ", ".join(f"pid {pid}" for pid in others) or "its own threads"
    doubt = f"which of those who map it ({named}) holds it or would set it cannot be seen"
    parties = [Party(pid, None, doubt) for pid in others]
    parties += [Party(bare.pid, tid, doubt) for tid in free[bare.pid]]
    alone = "" if others else (
        "all who map it wait for it" if len(there) > 1 else "no other process that is there maps it"
    )  # fmt: skip
    what = f"waits for a lock or an event in shared memory ({where.name})"
    hidden = "" if others else holders.unreadable
    make = msgspec.structs.replace
    if hidden:
        return make(bare, what=what, worst=Fate.UNSURE, doubt=hidden, waits=True)
    return make(bare, what=what, parties=tuple(parties), alone=alone, waits=True)


def _at(call: Call, where: Mapped, holders: Holders) -> bool:
    """Return whether a thread waits for the same word of shared memory."""
    if call.name != "futex" or call.args[1] & _PRIVATE:
        return False
    found = holders.mapping(call.pid, call.args[0])
    return found is not None and (found.key, found.offset) == (where.key, where.offset)
