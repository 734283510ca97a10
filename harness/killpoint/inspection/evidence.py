"""Evidence against processes that needs neither rings nor a wait graph: what they lack, or lost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from killpoint.inspection.holders import Holders
from killpoint.inspection.model import Culprit, Process
from killpoint.inspection.processes import adopted, children
from killpoint.verdict import counted, counted_doing

_ESTABLISHED, _LISTENS = "01", "0A"
_SHOWN = 3
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


def orphans(
    processes: Mapping[int, Process], holders: Holders, proc: Path = Path("/proc")
) -> list[Culprit]:
    """Return adopted processes that have pipes both ways without another process at the other end.

    A child of ``multiprocessing`` has such pipes once its parent is dead: the process that had
    begun it is to blame. A server that was left by its shell is adopted, too, but has no pipes to
    it, or one that was left open by mistake.
    """
    found: list[Culprit] = []
    for pid, process in processes.items():
        lost = [] if process.dead or not adopted(process, proc) else holders.lost(pid)
        if {file.way for file in lost} == {"r", "w"}:
            names = ", ".join(dict.fromkeys(file.text for file in lost[:_SHOWN]))
            text = (
                f"nobody that is there: pid {pid} ({process.command}) was begun by a process that"
                f" is gone, and is left to pid {process.parent}: nobody has the other end of its"
                f" {names}"
            )
            found.append(Culprit(None, text, (pid,)))
    return found


def starved(processes: Mapping[int, Process], proc: Path = Path("/proc")) -> list[Culprit]:
    """Return processes that have no free descriptor, while clients wait to be accepted."""
    found: list[Culprit] = []
    for pid, process in processes.items():
        most = None if process.dead else _most_descriptors(pid, proc)
        if most is None or _descriptors(pid, proc) < most:
            continue
        waiting = [x for x in _connections(pid, proc) if x.state == _LISTENS and x.queued]
        if waiting:
            count = sum(x.queued for x in waiting)
            ports = ", ".join(sorted({str(x.port) for x in waiting}))
            text = (
                f"pid {pid} ({process.command}) has all {most} descriptors open that it may have:"
                f" {counted_doing(count, 'connections', 'wait')} at its port {ports}, and it can"
                " accept none"
            )
            found.append(Culprit(pid, text))
    return found


def deserted(
    processes: Mapping[int, Process], peerless: Iterable[int], proc: Path = Path("/proc")
) -> list[Culprit]:
    """Return servers whose clients wait for answers that no process makes any more.

    Args:
        processes: By pid.
        peerless: Processes that poll ZeroMQ sockets of which none has a peer.
        proc: The kernel's folder of processes.
    """
    found: list[Culprit] = []
    for pid in dict.fromkeys(peerless):
        known = list(_connections(pid, proc))
        ports = {x.port for x in known if x.state == _LISTENS}
        clients = sum(x.state == _ESTABLISHED and x.port in ports for x in known)
        if not ports:  # it accepts no more: whoever is connected came before
            clients = sum(x.state == _ESTABLISHED for x in known)
        if clients and not any(_works(child, processes, proc) for child in children(pid, proc)):
            text = (
                f"pid {pid} ({processes[pid].command}) has {counted(clients, 'connections')} of"
                " clients open,"
                " and nobody who would make their answers: none of its ZeroMQ sockets has a peer,"
                " and none of its children lives"
            )
            found.append(Culprit(pid, text))
    return found


def _works(pid: int, processes: Mapping[int, Process], proc: Path) -> bool:
    """Return whether a child lives, and is more than a helper of Python's own library."""
    if pid in processes and processes[pid].dead:
        return False
    with contextlib.suppress(OSError):
        line = (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace")
        return not any(name in line for name in _HELPERS)
    return False


class _Connection(NamedTuple):
    state: str
    port: int
    """Port of this end."""
    queued: int
    """Number of connections to a listening socket that have not been accepted."""


def _connections(pid: int, proc: Path) -> Iterable[_Connection]:
    own = _sockets(pid, proc)
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (proc / str(pid) / "net" / table).read_text().splitlines()[1:]:
                words = line.split()
                if words[9] in own:
                    port = int(words[1].rpartition(":")[2], 16)
                    yield _Connection(words[3], port, int(words[4].partition(":")[2], 16))


def _sockets(pid: int, proc: Path) -> set[str]:
    """Inodes of the sockets of a process."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for fd in (proc / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                text = str(fd.readlink())
                if text.startswith("socket:["):
                    found.add(text[len("socket:[") : -1])
    return found


def _descriptors(pid: int, proc: Path) -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir(proc / str(pid) / "fd"))  # noqa: PTH208 # names, no paths
    return 0


def _most_descriptors(pid: int, proc: Path) -> int | None:
    """The soft limit; None: there is none, or it cannot be read."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (proc / str(pid) / "limits").read_text().splitlines():
            if line.startswith("Max open files"):
                return int(line.split()[3])
    return None
