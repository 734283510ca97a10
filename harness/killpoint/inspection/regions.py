"""Shared memory of processes, and a way to read it through one that maps it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_LINE = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) \S{3}s ([0-9a-f]+) (\S+) (\d+) +(/dev/shm/.+?)( \(deleted\))?$"
)
"""A shared mapping of a file of /dev/shm in ``maps``, whether or not its name is gone."""


class Region(NamedTuple):
    """One file of shared memory that a process maps whole."""

    name: str
    size: int
    mappers: tuple[int, ...]
    starts: tuple[int, ...]
    """Address at which each mapper has it."""
    inode: int = 0

    def read(self, offset: int, count: int, proc: Path = Path("/proc")) -> bytes:
        """Return so many bytes as they are now; OSError if no process maps it any more."""
        for pid, start in zip(self.mappers, self.starts, strict=True):
            with contextlib.suppress(OSError), (proc / str(pid) / "mem").open("rb", 0) as memory:
                memory.seek(start + offset)
                return memory.read(count)
        raise OSError(f"nobody maps {self.name} any more")


def shared(pids: Iterable[int], proc: Path = Path("/proc")) -> list[Region]:
    """Return every region that these processes map, oldest first."""
    found: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
    names: dict[tuple[str, int], str] = {}
    for pid in pids:
        text = ""
        with contextlib.suppress(OSError):
            text = (proc / str(pid) / "maps").read_text(errors="replace")
        for line in text.splitlines():
            match = _LINE.match(line)
            if match is None or int(match[3], 16):
                continue
            key = match[4], int(match[5])
            start, end = int(match[1], 16), int(match[2], 16)
            found.setdefault(key, {}).setdefault(pid, (start, end - start))
            names[key] = Path(match[6]).name
    return [
        Region(
            names[key],
            _size(names[key], key[1], at, proc),
            tuple(at),
            tuple(start for start, _ in at.values()),
            key[1],
        )
        for key, at in sorted(found.items(), key=lambda item: item[0][1])
    ]


def _size(name: str, inode: int, at: dict[int, tuple[int, int]], proc: Path) -> int:
    """Return the size in bytes.

    It is exact where a descriptor or the name is left; else the size of the mapping, in whole
    pages.
    """
    for pid in at:
        with contextlib.suppress(OSError):
            found = (proc / str(pid) / "root/dev/shm" / name).stat()
            if found.st_ino == inode:
                return found.st_size
        with contextlib.suppress(OSError):
            for fd in (proc / str(pid) / "fd").iterdir():
                if str(fd.readlink()).startswith(f"/dev/shm/{name}"):
                    return fd.stat().st_size
    return max(size for _, size in at.values())
