"""Which ends of pipes and sockets a process holds, read from the kernel (SPEC W9)."""

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
    """Such as ``pipe:77:w`` and ``socket:78``: two processes that show the same hold the same."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        process = Path(f"/proc/{pid}")
        found = {_end(process, fd.name) for fd in (process / "fd").iterdir()}
    return sorted(found - {""})


def interpreters_own() -> list[str]:
    """Ends in this process that CPython's multiprocessing keeps for each child that it started.

    They are a sentinel, whose end of file tells of the child's death, and the end whose closing
    tells the child of ours. A child that is forked later has copies of both: that is CPython's
    doing, whoever uses it.
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
    """A descriptor as an end of a pipe or socket; empty if it is none."""
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
    """In an event that names the role as its ``target``; with the peer of each joined socket."""
    held = ends(pid)
    log.write("open-ends", target=role, pid=pid, ends=held, **_peers(pid, held))


def _peers(pid: int, held: list[str]) -> dict[str, dict[str, str]]:
    """The other end of each Unix socket among these, where the kernel tells."""
    try:
        joined = sock_diag.unix_peers(pid)
    except OSError:
        return {}
    named = {f"socket:{one}": f"socket:{other}" for one, other in joined.items()}
    return {"peers": {end: named[end] for end in held if end in named}}
