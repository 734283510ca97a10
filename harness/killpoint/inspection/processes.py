"""The process tree, from the kernel's ``/proc``."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from killpoint.inspection.model import Process

_SHOWN = 60  # characters of a command line


def tree(pid: int, proc: Path = Path("/proc")) -> list[Process]:
    """A process and all below it, parents first; empty if there is no such process."""
    found: list[Process] = []
    todo = [pid]
    while todo:
        at = todo.pop(0)
        process = look(at, proc)
        if process is not None:
            found.append(process)
            todo += children(at, proc)
    return found


def look(pid: int, proc: Path = Path("/proc")) -> Process | None:
    """Return one process; None if it is gone."""
    try:
        name, _, rest = (proc / str(pid) / "stat").read_text().partition("(")[2].rpartition(")")
        fields = rest.split()
        up = float((proc / "uptime").read_text().split()[0])
    except (OSError, IndexError, ValueError):
        return None
    age = up - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return Process(pid, int(fields[1]), _command(pid, name, proc), fields[0], round(age, 1))


def above(process: Process, proc: Path = Path("/proc")) -> dict[int, Process]:
    """Return all its ancestors, by pid."""
    found: dict[int, Process] = {}
    at = look(process.parent, proc)
    while at is not None and at.pid not in found:
        found[at.pid] = at
        at = look(at.parent, proc)
    return found


def adopted(process: Process, proc: Path = Path("/proc")) -> bool:
    """Return whether the process was adopted: the parent that had begun it is gone."""
    own, theirs = _session(process.pid, proc), _session(process.parent, proc)
    return process.parent == 1 or (bool(own and theirs) and own not in (theirs, process.pid))


def _session(pid: int, proc: Path) -> int:
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int((proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[3])
    return 0


def _command(pid: int, name: str, proc: Path) -> str:
    words: list[str] = []
    with contextlib.suppress(OSError):
        raw = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
        words = [word.decode(errors="replace") for word in raw if word]
    line = " ".join(words)
    shown = line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
    if not words:
        return name
    return shown if Path(words[0]).name.startswith(name) else f"{name} · {shown}"


def children(pid: int, proc: Path = Path("/proc")) -> list[int]:
    """Return the processes that it has begun, or adopted, and not reaped."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in (proc / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                found += [int(kid) for kid in (task / "children").read_text().split()]
    return sorted(found)
