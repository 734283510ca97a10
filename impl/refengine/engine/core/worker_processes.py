"""A replica's worker processes, for those that have to end them.

A worker exits by itself when its core ends, unless it is stopped.
"""

import contextlib
from collections.abc import Iterable

from ...base.clock import Clock, monotonic
from ...executor.process import ChildProcess, has_ended, kill_group


class WorkerProcesses:
    """Worker processes, identified by pidfds, never by number."""

    def __init__(self, pids: Iterable[int] = (), clock: Clock = monotonic) -> None:
        self._clock = clock
        self._workers: list[tuple[int, ChildProcess]] = []
        for rank, pid in enumerate(pids):
            with contextlib.suppress(ProcessLookupError):
                self._workers.append((rank, ChildProcess(pid)))

    def alive(self) -> dict[int, int]:
        """Return the live processes' ids by rank."""
        return {rank: worker.pid for rank, worker in self._workers if not has_ended(worker)}

    def kill(self, seconds: float = 0.0) -> bool:
        """Kill them, and all that they started; return whether they are gone within `seconds`."""
        for _, worker in self._workers:
            if not has_ended(worker):
                kill_group(worker)
        end = self._clock() + seconds
        return all(has_ended(w, max(0.0, end - self._clock())) for _, w in self._workers)

    def close(self) -> None:
        """Close the descriptors."""
        for _, worker in self._workers:
            worker.close()
        self._workers.clear()
