"""Leftovers of a play: processes, shared-memory names, temporary files; and their removal."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from killpoint.history.record import History

_SHM = Path("/dev/shm")
_DRAWN = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=_)\w{6,}|[0-9a-f]{6,}|\d+")
"""Part of a name that a process or a library draws anew: numbers, and random letters."""
_OF_TEMPFILE = re.compile(r"(?:(?<=[-_])|(?<=\btmp))[a-z0-9_]{8}(?=/|$)")
"""What Python's tempfile puts behind the first part of a name."""
_TYPES = (
    (stat.S_ISSOCK, "unix socket"),
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISDIR, "empty directory"),
    (stat.S_ISLNK, "symbolic link"),
)


class Ledger(msgspec.Struct):
    """Leftovers found after the last party's exit, owned by this play and by no other."""

    processes: list[str] = []
    """``pid command`` of each process still there, zombies included."""
    segments: list[str] = []
    files: list[str] = []
    """Paths below the play's own temporary folder."""
    gpu_bytes: int = 0
    """GPU memory in use beyond what was in use before the play, where it used a GPU."""
    all_killed: bool = False
    """True if every party died by SIGKILL: then a leftover may wait for the next start."""
    waited: float = 0.0
    """Seconds between the last exit and this look."""
    types: dict[str, str] = {}
    """Sort of each of ``files`` that is no ordinary file: ``unix socket``, ``FIFO``…"""
    usual: dict[str, int] = {}
    """Number of leftovers of each sort that the same play has without the fault that is judged."""

    def empty(self) -> bool:
        """Return whether nothing was left."""
        return not (self.processes or self.segments or self.files or self.gpu_bytes)

    def words(self) -> str:
        """Return the leftovers in one phrase."""
        parts = [f"{_counted(count, sort)}{of}" for (sort, of), count in self._sorted().items()]
        if self.gpu_bytes:
            parts.append(f"{self.gpu_bytes >> 20} MiB of GPU memory")
        return ", ".join(parts) or "nothing"

    def lines(self) -> list[str]:
        """Return a line for each leftover, by its own name."""
        found = [f"left: process {line}" for line in self.processes]
        found += [f"left: shared-memory segment {name}" for name in self.segments]
        found += [f"left: {self.types.get(path, 'temporary file')} {path}" for path in self.files]
        return found + [f"left: {self.gpu_bytes >> 20} MiB of GPU memory"] * (self.gpu_bytes > 0)

    def counts(self) -> dict[str, int]:
        """Return the number of leftovers of each sort."""
        found = Counter(sort for (sort, _), count in self._sorted().items() for _ in range(count))
        return dict(found) | ({"GPU memory": 1} if self.gpu_bytes else {})

    def beyond_usual(self) -> list[str]:
        """Return the leftovers of each sort beyond :attr:`usual`, in words."""
        more = {sort: n - self.usual.get(sort, 0) for sort, n in self.counts().items()}
        return [_counted(count, sort) for sort, count in more.items() if count > 0]

    def _sorted(self) -> dict[tuple[str, str], int]:
        """Count leftovers by sort and name, without the parts that are drawn anew each time."""
        found: Counter[tuple[str, str]] = Counter()
        for line in self.processes:
            found["process", _of(line.partition(" ")[2])] += 1
        for name in self.segments:
            found["shared-memory segment", _of(_OF_TEMPFILE.sub("…", name))] += 1
        for path in self.files:
            named = _of(_OF_TEMPFILE.sub("…", path))
            found[self.types.get(path, "temporary file"), named] += 1
        return dict(found)


def _counted(count: int, sort: str) -> str:
    several = {"process": "processes", "empty directory": "empty directories"}
    return f"{count} {sort if count == 1 else several.get(sort, f'{sort}s')}"


def _of(name: str) -> str:
    """A name without what was drawn for it; nothing if nothing else is left."""
    plain = _DRAWN.sub("…", name)
    return f" ({plain})" if plain.strip("…/-_. ") else ""


def owned_names(history: History) -> set[str]:
    """Shared-memory names that roles created or were seen to map."""
    made = {event.text("name") for event in history.of("segment") if event.text("act") == "create"}
    for event in history.of("mapped"):
        made |= set(event.text("names").split())
    return made - {""}


def look(
    names: Iterable[str], temporary: Path, descendants: Iterable[int], shm: Path = _SHM
) -> Ledger:
    """Find what of a play is still there; ``shm``: where its roles' /dev/shm is seen from here."""
    processes: list[str] = []
    for pid in descendants:
        with contextlib.suppress(OSError):
            said = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            program, *given = said.strip("\0 ").split("\0")
            command = " ".join([Path(program).name, *given])
            processes.append(f"{pid} {command[:80] or 'zombie'}")
    files = [str(path.relative_to(temporary)) for path in paths_below(temporary)]
    return Ledger(
        processes=processes,
        segments=sorted(name for name in names if (shm / name).exists()),
        files=sorted(files),
        types={path: word for path in files if (word := _type(temporary / path))},
    )


def paths_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, and the empty folders; not what vanishes meanwhile."""
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        yield from (Path(parent, name) for name in (*files, *links))
        if not (files or folders) and Path(parent) != folder:
            yield Path(parent)


def _type(path: Path) -> str:
    """Return the sort of a file that is no ordinary one; else an empty string."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return ""
    return next((word for is_one, word in _TYPES if is_one(mode)), "")


def remove(left: Ledger, temporary: Path, shm: Path = _SHM) -> None:
    """Remove what a play left, after it was judged."""
    for line in left.processes:
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(line.split()[0]), signal.SIGKILL)
    for name in left.segments:
        (shm / name).unlink(missing_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
