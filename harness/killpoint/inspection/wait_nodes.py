"""Threads of foreign code as nodes of the wait graph: from a system call to who could end it."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from killpoint.inspection import futexes
from killpoint.inspection.calls import READS, SHORT, WRITES, Call, epolled
from killpoint.inspection.ends import Ends, FarEnd
from killpoint.inspection.holders import Holders
from killpoint.inspection.model import Edge, Process, Thread
from killpoint.inspection.wait_graph import Fate, Node, Party
from killpoint.inspection.waits import COLLECTIVE, GROUP, MESSAGE, SLOT

LONG = 3600.0
"""Seconds: a time limit beyond this is none."""
_SIGNALS = frozenset(["pause", "rt_sigsuspend", "rt_sigtimedwait", "restart_syscall"])
_RINGS = frozenset({MESSAGE, SLOT, COLLECTIVE, GROUP})
_CHILDREN = frozenset({"wait4", "waitid"})
_SET_LOCK = frozenset({7, 38})
_DO = {
    "accept": "waits for a connection at", "accept4": "waits for a connection at",
    "flock": "waits for a lock of", "fcntl": "waits for a lock of",
}  # fmt: skip
_MODULE = re.compile(r" \[(\w+)\]$", re.MULTILINE)
"""Module of a function, in a line of a kernel's stack."""
_ZMQ, _ZEROMQ = "ZMQbg/", "ZeroMQ"
_IO_URING = ("iou-wrk-", "iou-sqp-")


class ProcessFacts(msgspec.Struct):
    """Data on the processes that a graph is of."""

    processes: dict[int, Process]
    """Processes, with Python stacks where there are any."""
    calls: dict[int, list[Call]]
    moved: frozenset[tuple[int, int]]
    """Threads that were on a processor between two looks."""
    edges: Sequence[Edge]
    """Waits that the rings show."""
    me: int
    """Process that looks: it is no party of any wait."""
    earlier: dict[tuple[int, int], Call] = {}
    """Calls of the threads at the earlier look."""

    def python(self, pid: int, tid: int) -> Thread | None:
        """A thread's Python stack."""
        process = self.processes.get(pid)
        threads = process.threads if process else ()
        return next((thread for thread in threads if thread.tid == tid), None)

    def related(self, one: int, other: int) -> bool:
        """Return whether one is an ancestor of the other."""
        return other in self._above(one) or one in self._above(other)

    def _above(self, pid: int) -> list[int]:
        found: list[int] = []
        at = self.processes.get(pid)
        while at is not None and at.parent not in found:
            found.append(at.parent)
            at = self.processes.get(at.parent)
        return found


class Builder:
    """Makes nodes of the threads of some processes."""

    def __init__(self, cast: ProcessFacts, holders: Holders, proc: Path = Path("/proc")) -> None:
        self._cast = cast
        self._holders = holders
        self._proc = proc
        self._ends = Ends(holders, self._watches, proc)

    def nodes(self, pids: Iterable[int]) -> list[Node]:
        """Return one node for each living thread."""
        return [
            self._node(call)
            for pid in pids
            for call in self._cast.calls.get(pid, [])
            if call.state not in ("Z", "X")
        ]

    def _node(self, call: Call) -> Node:
        thread = self._cast.python(call.pid, call.tid)
        bare = Node(call.pid, call.tid, thread.name if thread else "", thread.at if thread else "")
        make = msgspec.structs.replace
        if call.state in ("T", "t"):
            return make(bare, what="is stopped by a signal", fate=Fate.VAIN)
        if "freezer" in call.wchan or "refrigerator" in call.wchan:
            return make(bare, what="is frozen", fate=Fate.VAIN, waits=True)
        if thread is not None and thread.waits.split(" ")[0] in _RINGS:
            known = self._by_rings(bare, thread)
            if known is not None:
                return known
        if call.state == "D" and (call.pid, call.tid) not in self._cast.moved:
            what = f"is in uninterruptible sleep in the kernel{_where(call, self._proc)}"
            return make(bare, what=what, fate=Fate.VAIN, waits=True)
        busy = call.state == "R" or call.name == "running"
        if busy or (call.pid, call.tid) in self._cast.moved:
            node = make(bare, what="runs", fate=Fate.GOES, servant=_servant(call), runs=True)
            return self._turning(node, call)
        if call.comm.startswith(_IO_URING):  # a thread of the kernel's: it waits for work alone
            return make(bare, what="serves io_uring", fate=Fate.GOES, servant=True)
        if not call.name:
            doubt = "its system calls may not be read: that needs the right to trace it"
            return make(bare, what="sleeps", worst=Fate.UNSURE, doubt=doubt, waits=True)
        if _servant(call):
            return make(bare, what="serves ZeroMQ", fate=Fate.GOES, servant=True)
        limit = call.limit(self._proc)
        if thread is not None and thread.gil and call.state == "S":
            doubt = "it holds Python's lock, for which all other threads of it wait"
            return make(bare, what="sleeps", worst=Fate.UNSURE, doubt=doubt, waits=True)
        if limit <= SHORT:
            return self._turning(make(bare, what="sleeps for a moment", fate=Fate.GOES), call)
        files = call.files(self._proc)
        if call.name in _SIGNALS and limit == math.inf:
            return make(bare, what="waits for a signal", fate=Fate.UNSURE)
        if call.name.endswith("nanosleep") or (limit <= LONG and not files):
            told = f"sleeps for {limit:.0f} s" if limit <= LONG else "sleeps for ever"
            return make(bare, what=told, fate=Fate.UNSURE)
        node = self._waiting(bare, call, thread, files)
        if limit <= LONG:
            return make(node, worst=Fate.UNSURE, waits=False)
        return node

    def _turning(self, node: Node, call: Call) -> Node:
        """Add the parties of its short waits to a thread that goes on again and again."""
        files = None if node.servant else self._polled(call)
        if not files:
            return node
        found = self._for_files(node, call, files)
        return msgspec.structs.replace(node, parties=found.parties, beside=found.beside)

    def _by_rings(self, node: Node, thread: Thread) -> Node | None:
        """Return the node of a thread whose wait the rings show; None: they show none."""
        edges = [edge for edge in self._cast.edges if edge.waiter == node.pid]
        parties = tuple(Party(edge.on) for edge in edges if edge.on is not None)
        if not edges:
            return None
        what = f"waits for {edges[0].why}" if edges[0].on is None else f"waits: {edges[0].why}"
        told = any(edge.on is None for edge in edges)
        make = msgspec.structs.replace
        return make(node, what=what, parties=parties, told=told, waits=True)

    def _waiting(
        self, node: Node, call: Call, thread: Thread | None, files: list[tuple[int, bool]] | None
    ) -> Node:
        make = msgspec.structs.replace
        if call.name == "futex":
            return futexes.node(node, call, thread, self._cast.calls, self._cast.processes,
                                self._holders, self._proc)  # fmt: skip
        if call.name == "connect":
            doubt = "who ought to accept it cannot be seen"
            return make(node, what="connects", worst=Fate.UNSURE, doubt=doubt, waits=True)
        if call.name in _CHILDREN:
            return self._for_a_child(node, call)
        if call.name == "flock" or (call.name == "fcntl" and call.args[1] in _SET_LOCK):
            return self._for_a_file_lock(node, call)
        if files is None:
            doubt = f"what it polls cannot be read (in {call.name})"
            return make(node, what="polls", worst=Fate.UNSURE, doubt=doubt, waits=True)
        if not files:
            where = f" at {call.wchan}" if call.wchan else ""
            doubt = f"what system call {call.name}{where} waits for cannot be seen"
            return make(node, what="sleeps", worst=Fate.UNSURE, doubt=doubt, waits=True)
        return self._for_files(node, call, files)

    def _for_a_child(self, node: Node, call: Call) -> Node:
        kids = [p.pid for p in self._cast.processes.values() if p.parent == node.pid]
        asked = call.args[0 if call.name == "wait4" else 1] & 0xFFFF_FFFF
        one = call.name == "wait4" and asked >> 31 == 0 and asked
        if one or (call.name == "waitid" and call.args[0] == 1):
            kids = [asked]
        alive = tuple(Party(pid) for pid in kids)
        what = f"waits for the end of pid {kids[0]}" if len(kids) == 1 else "waits for a child"
        doubt = "" if kids else "which process it waits for cannot be seen"
        worst = Fate.VAIN if kids else Fate.UNSURE
        make = msgspec.structs.replace
        return make(node, what=what, parties=alive, doubt=doubt, worst=worst, waits=True)

    def _for_a_file_lock(self, node: Node, call: Call) -> Node:
        file = self._holders.file(node.pid, call.args[0] & 0xFFFF_FFFF)
        own = {node.pid}
        nobody: set[int] = set()
        held = self._holders.locks.get(file.id, nobody) if file is not None else nobody
        what = f"waits for a lock of {file.text}" if file is not None else "waits for a file lock"
        make = msgspec.structs.replace
        if not held:
            doubt = "who holds the lock cannot be seen"
            return make(node, what=what, worst=Fate.UNSURE, doubt=doubt, waits=True)
        others = tuple(Party(pid) for pid in sorted(held - own or held))
        alone = "" if held - own else "it holds that lock itself"
        return make(node, what=what, parties=others, alone=alone, waits=True)

    def _for_files(self, node: Node, call: Call, files: Sequence[tuple[int, bool]]) -> Node:
        ends = [end for fd, writes in files for end in self._end(call, fd, writes, 0)]
        parties: list[Party] = []
        for end in ends:
            parties += [self._party(node, pid, end) for pid in end.holders if pid != self._cast.me]
            if self._cast.me in end.holders:
                doubt = "its other end is held by the process that looks"
                parties.append(Party(self._cast.me, None, doubt))
        doubt = "; ".join(dict.fromkeys(end.doubt for end in ends if end.doubt))
        worst = Fate.UNSURE if doubt else Fate.VAIN
        beside = next((end.doubt for end in ends if end.name == _ZEROMQ), "")
        if any(end.outside for end in ends):
            worst, doubt = Fate.GOES, ""
        alone = ""
        if not any(party.pid != node.pid for party in parties) and worst is Fate.VAIN:
            alone = "; ".join(dict.fromkeys(end.alone(node.pid) for end in ends[:_SHOWN]))
        make = msgspec.structs.replace
        return make(
            node, what=_what(call, ends), parties=tuple(dict.fromkeys(parties)), doubt=doubt,
            worst=worst, alone=alone, waits=True, beside=beside,
        )  # fmt: skip

    def _end(self, call: Call, fd: int, writes: bool, depth: int) -> list[FarEnd]:
        file = self._holders.file(call.pid, fd)
        if file is None:
            return [FarEnd(f"fd {fd}", doubt=f"what its fd {fd} is cannot be seen")]
        if file.kind == "epoll":
            with contextlib.suppress(OSError):
                if depth < _DEEP:
                    inner = epolled(call.pid, fd, self._proc)
                    found = [self._end(call, at, out, depth + 1) for at, out in inner]
                    return [end for ends in found for end in ends]
            return [FarEnd("an epoll", doubt=f"what its epoll {fd} watches cannot be read")]
        if file.kind == "eventfd":
            inner = self._zeromq(call.pid)
            if inner is not None:
                return inner
        return [self._ends.end(call.pid, file, writes=writes)]

    def _zeromq(self, pid: int) -> list[FarEnd] | None:
        """The connections of a process's ZeroMQ sockets; None: it has none of ZeroMQ's threads."""
        calls = [call for call in self._cast.calls.get(pid, []) if _servant(call)]
        if not calls:
            return None
        found: list[FarEnd] = []
        hidden = False
        for call in calls:
            files = self._polled(call)
            hidden = hidden or not files
            for fd, writes in files:
                file = self._holders.file(pid, fd)
                if file is not None and file.kind == "socket":
                    end = self._ends.end(pid, file, writes=writes)
                    if end.holders:
                        found.append(msgspec.structs.replace(end, own=True))
        if not found and hidden:
            doubt = (
                "which connections its ZeroMQ sockets have cannot be seen while they are at work"
            )
            return [FarEnd("ZeroMQ at work", doubt=doubt)]
        return found or [FarEnd(_ZEROMQ, doubt="no peer of its ZeroMQ sockets is connected, and"
                             " whether one will come cannot be seen")]  # fmt: skip

    def _polled(self, call: Call) -> list[tuple[int, bool]]:
        """Return what a thread polls, or polled at the earlier look if it works now."""
        files = call.files(self._proc)
        if not files and (before := self._cast.earlier.get((call.pid, call.tid))):
            files = before.files(self._proc)
        return files or []

    def _party(self, node: Node, pid: int, end: FarEnd) -> Party:
        if pid == node.pid:
            doubt = "" if end.own else f"of {end.name} it itself holds the other end"
            return Party(pid, None, doubt)
        if end.own or self._cast.related(node.pid, pid) or pid in end.watchers:
            return Party(pid)
        process = self._cast.processes.get(pid)
        called = f"pid {pid} ({process.command})" if process else f"pid {pid}"
        doubt = (
            f"the other end of {end.name} is held by {called}, which looks elsewhere: whether it"
            " would answer, or inherited it, cannot be seen"
        )
        return Party(pid, None, doubt)

    def _watches(self, pid: int) -> Iterable[tuple[int, bool]]:
        """Descriptors that a process sleeps at."""
        for call in self._cast.calls.get(pid, []):
            yield from call.files(self._proc) or ()


_DEEP = 3
_SHOWN = 3


def _servant(call: Call) -> bool:
    return call.comm.startswith(_ZMQ)


def _where(call: Call, proc: Path) -> str:
    """The kernel's function in which it sleeps, and the module, such as a device's driver."""
    at = f", at {call.wchan}" if call.wchan not in ("", "0") else ""
    with contextlib.suppress(OSError):  # it is root's alone to read
        stack = (proc / str(call.pid) / "task" / str(call.tid) / "stack").read_text()
        module = _MODULE.search(stack)
        if module is not None:
            return f"{at}, in the driver {module[1]}"
    return at


def _what(call: Call, ends: Sequence[FarEnd]) -> str:
    names = list(dict.fromkeys(end.name for end in ends))
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" * (len(names) > _SHOWN))
    if call.name in _DO:
        return f"{_DO[call.name]} {shown}"
    if call.name in READS:
        return f"reads {shown}"
    return f"writes {shown}" if call.name in WRITES else f"polls {shown}"
