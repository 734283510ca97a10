"""A replica's workers, as whoever has to end them knows them.

A worker ends with its core by itself, unless it is stopped: then it does nothing by itself.
"""

import contextlib
from collections.abc import Iterable

from ..clock import Clock, monotonic
from ..executor.process import ChildProcess, has_ended, kill_group


class WorkerProcesses:
    """These processes, told apart by their pidfds, never by number."""

    def __init__(self, pids: Iterable[int] = (), clock: Clock = monotonic) -> None:
        self._clock = clock
        self._workers: list[tuple[int, ChildProcess]] = []
        for rank, pid in enumerate(pids):
            with contextlib.suppress(ProcessLookupError):
                self._workers.append((rank, ChildProcess(pid)))

    def alive(self) -> dict[int, int]:
        """Their pids by rank."""
        return {rank: worker.pid for rank, worker in self._workers if not has_ended(worker)}

    def kill(self, seconds: float = 0.0) -> bool:
        """End them, and what they have started; whether they are gone so much later."""
        for _, worker in self._workers:
            if not has_ended(worker):
                kill_group(worker)
        end = self._clock() + seconds
        return all(has_ended(w, max(0.0, end - self._clock())) for _, w in self._workers)

    def close(self) -> None:
        """Let go of the descriptors."""
        for _, worker in self._workers:
            worker.close()
        self._workers.clear()
