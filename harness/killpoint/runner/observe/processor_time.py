"""The control of verdicts about time: the time for which each role was ready but had no processor.

The kernel counts it for every thread (``/proc/PID/task/TID/schedstat``, second number), and adds a
wait as it ends. A role that waits for a message counts nothing; one that the machine keeps waiting
does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from killpoint.history.log import Log
from killpoint.runner.role_process import RoleProcess

_EACH = 0.05
"""Seconds between two samples; more where a sample takes more than a hundredth of that."""
_STAT_BYTES = 256
"""Of `schedstat` all: three numbers, of which the longest has twenty digits; of `stat` the name and
the state, with which it begins."""
_WORTH_A_LINE = 1_000_000
"""Nanoseconds from which on a wait has a line in the record."""


@dataclass
class _Seen:
    """Last sample of one process."""

    pid: int
    waits: dict[str, int] = field(default_factory=dict[str, int])
    denied: int = 0
    """Nanoseconds over all samples of it."""


class ProcessorTime:
    """Sampler of the roles of one play; logs ``denied`` where a role lost time to the machine."""

    def __init__(self, log: Log) -> None:
        """Start without samples."""
        self._log = log
        self._seen: dict[str, _Seen] = {}
        self._last = time.monotonic()
        self._next = 0.0

    def sample(self, actors: Iterable[RoleProcess]) -> None:
        """Sample every live role, if a sample is due."""
        now = time.monotonic()
        if now < self._next:
            return
        for actor in actors:
            if actor.alive and actor.pid > 0:
                self._look(actor, now - self._last)
        self._last = now
        self._next = now + max(_EACH, 100 * (time.monotonic() - now))

    def denied(self, name: str) -> float:
        """Return the seconds, since the play began, for which a role was kept from running."""
        seen = self._seen.get(name)
        return seen.denied / 1e9 if seen else 0.0

    def _look(self, actor: RoleProcess, over: float) -> None:
        seen = self._seen.get(actor.name)
        waits = waits_of(actor.pid)
        if seen is None or seen.pid != actor.pid:
            earlier = seen.denied if seen else 0
            self._seen[actor.name] = _Seen(actor.pid, waits, earlier)
            return
        # The worst of its threads: what one of them waited for may be what all of them do.
        grown = max((ns - seen.waits.get(thread, 0) for thread, ns in waits.items()), default=0)
        seen.waits = waits
        seen.denied += max(grown, 0)
        if grown >= _WORTH_A_LINE:
            self._log.write("denied", target=actor.name, ns=grown, over=int(over * 1e9))


class Attendance:
    """How long a role has been at one operation, without the time that the machine kept it from it.

    A thread that sleeps waits for something. One that is ready to run is credited with no more than
    it ran: it may be in the midst of what it does before it waits.
    """

    def __init__(self) -> None:
        """Start with no operation."""
        self._order: int | None = None
        self._at = 0.0
        self._ran: dict[str, int] = {}
        self._seconds = 0.0

    def look(self, pid: int, order: int | None) -> float:
        """Return its seconds at this operation so far: 0 at the first look, and for None."""
        now, threads = time.monotonic(), _threads_of(pid)
        if order is None or order != self._order:
            self._order, self._seconds = order, 0.0
        else:
            ready = [thread for thread, (is_ready, _) in threads.items() if is_ready]
            ran = [(threads[each][1] - self._ran.get(each, 0)) / 1e9 for each in ready]
            self._seconds += max(0.0, min([now - self._at, *ran]))
        self._at, self._ran = now, {thread: ns for thread, (_, ns) in threads.items()}
        return self._seconds


def _threads_of(pid: int) -> dict[str, tuple[bool, int]]:
    """Return of each thread whether it is ready to run, and the nanoseconds that it has run."""
    found: dict[str, tuple[bool, int]] = {}
    for thread in _threads(pid):
        stat, numbers = (_read(pid, thread, file) for file in ("stat", "schedstat"))
        if stat and numbers:
            ran = int(numbers.split()[0])  # 0 for ever where the kernel does not count
            found[thread] = ran > 0 and stat.rpartition(b")")[2].split()[:1] == [b"R"], ran
    return found


def waits_of(pid: int) -> dict[str, int]:
    """Return the nanoseconds for which each thread was ready but did not run; {} if it is gone."""
    numbers = {thread: _read(pid, thread, "schedstat") for thread in _threads(pid)}
    return {thread: int(read.split()[1]) for thread, read in numbers.items() if read}


def _threads(pid: int) -> list[str]:
    """Return the ids of its threads; [] if it is gone."""
    try:
        with os.scandir(f"/proc/{pid}/task") as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def _read(pid: int, thread: str, file: str) -> bytes:
    """Return the beginning of a file of a thread; empty if the thread is gone."""
    try:
        fd = os.open(f"/proc/{pid}/task/{thread}/{file}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, _STAT_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)
