"""Which ends of pipes and sockets a process holds, read from the kernel (SPEC W9)."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from killpoint.history.log import Log

_HELD = re.compile(r"(pipe|socket):\[(\d+)\]")
_FLAGS = re.compile(r"^flags:\s*([0-7]+)$", re.MULTILINE)
_WAYS = {os.O_RDONLY: "r", os.O_WRONLY: "w", os.O_RDWR: "rw"}


def ends(pid: int) -> list[str]:
    """Such as ``pipe:77:w`` and ``socket:78``: two processes that show the same hold the same."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                held = _HELD.fullmatch(str(fd.readlink()))
                if held is None:
                    continue
                way = ""
                if held.group(1) == "pipe":
                    way = f":{_way(Path(f'/proc/{pid}/fdinfo/{fd.name}').read_text())}"
                found.add(f"{held.group(1)}:{held.group(2)}{way}")
    return sorted(found)


def _way(info: str) -> str:
    flags = _FLAGS.search(info)
    return _WAYS.get(int(flags.group(1), 8) & os.O_ACCMODE, "") if flags else ""


def record(log: Log, role: str, pid: int) -> None:
    """In an event that names the role as its ``target``."""
    log.write("open-ends", target=role, pid=pid, ends=ends(pid))
