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
"""Three numbers, of which the longest has twenty digits."""
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


def waits_of(pid: int) -> dict[str, int]:
    """Return the nanoseconds for which each thread was ready but did not run; {} if it is gone."""
    found: dict[str, int] = {}
    folder = f"/proc/{pid}/task"
    try:
        with os.scandir(folder) as entries:
            threads = [entry.name for entry in entries]
    except OSError:
        return found
    for thread in threads:
        try:
            fd = os.open(f"{folder}/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            found[thread] = int(os.read(fd, _STAT_BYTES).split()[1])
        except (OSError, IndexError, ValueError):
            continue
        finally:
            os.close(fd)
    return found
