"""The processes of a server, told apart by their titles and their parents."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from killpoint.runner.observe.diagnosis import mapped_segments, state
from killpoint.runner.observe.exposure_probe import family, listeners
from killpoint.runner.processes.process_watch import ProcessWatch
from killpoint.systems.server.program import PartKind
from killpoint.systems.server.record import kind_of

FRONT, HELPER = "front", "helper"
_HELPERS = re.compile(r"multiprocessing\.(resource_tracker|forkserver)")
_NUMBERED: tuple[PartKind, ...] = ("api-server", "core", "prefill", "worker", "helper")


class Ended(msgspec.Struct, frozen=True):
    """Part that is gone."""

    part: str
    status: int | None
    """Wait status, as of waitpid; None: not known."""


class ProcessTree:
    """All processes below a launcher, by the names that scenarios have for them.

    A name belongs to one process at a time: a process that is started again takes the lowest name
    of its kind that is free.
    """

    def __init__(self, launcher: int, titles: Mapping[PartKind, str]) -> None:
        self._launcher = launcher
        self._titles = {kind: re.compile(each) for kind, each in titles.items()}
        self._named: dict[int, str] = {}
        self._watches: dict[int, ProcessWatch] = {}
        self._begun: set[int] = set()
        self.front = 0
        """Pid of the process that was started; 0: none yet."""

    def begin(self, front: int) -> None:
        """Take note that a server was started."""
        self.front = front
        self._name(front, FRONT)

    def add(self, pid: int, name: str) -> None:
        """Take note of a part that was started beside the front, and keeps this name."""
        self._begun.add(pid)
        self._name(pid, name)

    def look(self) -> tuple[dict[str, int], list[Ended]]:
        """Return the live parts with their pids, and those that ended since the last look."""
        alive = [pid for pid in self.pids() if state(pid) not in ("Z", "X", "")]
        gone = [pid for pid in self._named if pid not in alive]
        ended = [Ended(self._named.pop(pid), self._status(pid)) for pid in gone]
        for pid in alive:
            if self._named.get(pid) != FRONT and pid not in self._begun:
                self._rename(pid, self._kind(pid))
        return {name: pid for pid, name in self._named.items()}, ended

    def pids(self) -> list[int]:
        """Return the pid of every process below the launcher, zombies included."""
        return family(self._launcher)[1:]

    def ports(self) -> list[int]:
        """Return the ports at which a process of the tree listens."""
        return sorted({each.port for pid in self.pids() for each in listeners(pid)})

    def segments(self) -> set[str]:
        """Return the names below /dev/shm that a process of the tree maps."""
        return {name for pid in self.pids() for name in mapped_segments(pid)}

    def close(self) -> None:
        """End the watch of every process."""
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()

    def _name(self, pid: int, name: str) -> None:
        self._named[pid] = name
        if pid in self._watches:
            return
        with contextlib.suppress(OSError):
            self._watches[pid] = ProcessWatch(pid, name)

    def _rename(self, pid: int, kind: str) -> None:
        """Give a process its name, anew if it has taken a title of another kind."""
        name = self._named.get(pid)
        if name is None or (kind != HELPER and kind_of(name) != kind):
            self._named.pop(pid, None)
            self._name(pid, self._free(kind))

    def _status(self, pid: int) -> int | None:
        watch = self._watches.pop(pid, None)
        if watch is None:
            return None
        try:
            return watch.status()
        finally:
            watch.close()

    def _free(self, kind: str) -> str:
        taken = set(self._named.values())
        if kind not in taken and kind not in _NUMBERED:
            return kind
        return next(name for name in _numbered(kind) if name not in taken)

    def _kind(self, pid: int) -> str:
        title = title_of(pid)
        for kind, pattern in self._titles.items():
            if pattern.search(title):
                return HELPER if self._is_copy(pid, title) else kind
        return HELPER if _HELPERS.search(title) or self._titles else "worker"

    def _is_copy(self, pid: int, title: str) -> bool:
        """Return whether it has the title of the part that forked it: a worker at first its core's.

        Called a core until it has its own, it would have the name of the next replica.
        """
        parent = _parent_of(pid)
        return parent != self.front and title_of(parent) == title


def _parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def title_of(pid: int) -> str:
    """Return ``COMM COMMAND-LINE`` of a process; empty if it is gone."""
    try:
        comm = Path(f"/proc/{pid}/comm").read_text().strip()
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return ""
    return f"{comm} {line.decode(errors='replace').strip()}"


def signalled(pid: int, number: signal.Signals) -> bool:
    """Send a signal; return whether the process was there to get it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _numbered(kind: str) -> Iterator[str]:
    return (f"{kind}-{number}" for number in range(1 << 16))
