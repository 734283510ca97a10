"""Ends of pipes and sockets that a process holds, read from the kernel (SPEC W9)."""

from __future__ import annotations

import contextlib
import multiprocessing.process
import os
import re
from pathlib import Path

from killpoint.history.log import Log
from killpoint.runner.network import sock_diag

_HELD = re.compile(r"(pipe|socket):\[(\d+)\]")
_FLAGS = re.compile(r"^flags:\s*([0-7]+)$", re.MULTILINE)
_WAYS = {os.O_RDONLY: "r", os.O_WRONLY: "w", os.O_RDWR: "rw"}


def ends(pid: int) -> list[str]:
    """Return ends such as ``pipe:77:w`` and ``socket:78``, equal in all their holders."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        process = Path(f"/proc/{pid}")
        found = {_end(process, fd.name) for fd in (process / "fd").iterdir()}
    return sorted(found - {""})


def interpreters_own() -> list[str]:
    """Return the ends that CPython's multiprocessing keeps in this process for its children.

    For each child it keeps a sentinel, whose end of file reports the child's death, and the end
    whose closing reports this process's death to the child. A child that is forked later has copies
    of both, which is due to CPython and not to the target.
    """
    found: set[str] = set()
    for child in getattr(multiprocessing.process, "_children", ()):
        popen = getattr(child, "_popen", None)
        finalizer = getattr(popen, "finalizer", None)
        for fd in getattr(finalizer, "_args", None) or ():
            if isinstance(fd, int):
                found |= {end for end in [_end(Path("/proc/self"), str(fd))] if end}
    return sorted(found)


def _end(process: Path, fd: str) -> str:
    """Return a descriptor as an end of a pipe or socket; empty if it is none."""
    try:
        held = _HELD.fullmatch(str((process / "fd" / fd).readlink()))
        if held is None:
            return ""
        kind, inode = held.groups()
        way = f":{_way((process / 'fdinfo' / fd).read_text())}" if kind == "pipe" else ""
    except OSError:
        return ""
    return f"{kind}:{inode}{way}"


def _way(info: str) -> str:
    flags = _FLAGS.search(info)
    return _WAYS.get(int(flags.group(1), 8) & os.O_ACCMODE, "") if flags else ""


def record(log: Log, role: str, pid: int) -> None:
    """Log the ends, for the role as ``target``, with the peer of each joined socket."""
    held = ends(pid)
    log.write("open-ends", target=role, pid=pid, ends=held, **_peers(pid, held))


def _peers(pid: int, held: list[str]) -> dict[str, dict[str, str]]:
    """Return the other end of each Unix socket among these, where the kernel shows it."""
    try:
        joined = sock_diag.unix_peers(pid)
    except OSError:
        return {}
    named = {f"socket:{one}": f"socket:{other}" for one, other in joined.items()}
    return {"peers": {end: named[end] for end in held if end in named}}
