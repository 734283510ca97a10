"""A replica for its supervisor: the core's process, the link to it, its workers' processes."""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from ...base import ownership
from ...base.fds import own
from ...executor.errors import how_it_ended
from ...executor.process import Process, has_ended, send_signal
from ..core.process import CoreInit
from ..core.start import start_core
from ..core.worker_processes import WorkerProcesses
from ..protocol import Close, FromChild, Ready, ReplicaDown, ToChild

_TO_BE_TOLD = 0.5  # seconds from a process's end to its exit status
_TO_REAP = 3.0  # seconds for a killed process to be gone


class Replica:
    """One process of a replica. It starts at once, and ends when this process does."""

    def __init__(
        self,
        init: CoreInit,
        start: Callable[[CoreInit, Connection, Connection], Process] = start_core,
    ) -> None:
        self.name, self.life = init.name, init.life
        self.ready: Ready | None = None
        self.listens = True
        """True while further messages may come from it."""
        self._cause = ""
        self._workers = WorkerProcesses()
        self._folder = Path(init.folder)
        self.link, theirs = multiprocessing.Pipe()
        hears_death, self._alive = multiprocessing.Pipe(duplex=False)
        for end in (self.link, self._alive):
            own(end)
        try:
            self._core = start(init, theirs, hears_death)
        except BaseException:
            self._release_ends()
            raise
        finally:
            theirs.close()
            hears_death.close()

    @property
    def pid(self) -> int:
        """Process id of the core."""
        return self._core.pid

    @property
    def sentinel(self) -> int:
        """Descriptor that is readable once the core has ended."""
        return self._core.pidfd.fileno()

    @property
    def votes(self) -> str:
        """Address at which other cores reach it, once it serves."""
        return "" if self.ready is None else self.ready.votes

    def pids(self) -> dict[str, int]:
        """Return its live processes' ids by name."""
        core = self._core
        found = {} if has_ended(core) else {self.name: core.pid}
        workers = self._workers.alive()
        return found | {f"{self.name}/worker-{rank}": pid for rank, pid in workers.items()}

    def say(self, message: ToChild) -> None:
        """Send a message to the core, if it lives."""
        with contextlib.suppress(OSError):
            self.link.send(message)

    def hear(self) -> list[FromChild]:
        """Return the core's messages so far."""
        said: list[FromChild] = []
        try:
            while self.link.poll():
                said.append(self.link.recv())
        except (EOFError, OSError):
            self.listens = False
        for message in said:
            if isinstance(message, Ready):
                self.ready = message
                self._workers = WorkerProcesses(message.workers)
            elif isinstance(message, ReplicaDown):
                self._cause = message.cause
        return said

    def cause(self) -> str:
        """Describe why it ended, as far as that is known."""
        if self._cause:
            return f"has ended: {self._cause}"
        outcome = self._core.outcome(_TO_BE_TOLD)
        return "was ended" if outcome is None else how_it_ended(outcome.signal, outcome.status)

    def kill(self) -> None:
        """Kill the core and its workers, stopped or not."""
        send_signal(self._core, signal.SIGKILL)
        self._workers.kill()

    def leave(self) -> None:
        """Ask the core to shut down."""
        self.say(Close())

    def end(self, seconds: float = 0.0) -> None:
        """Wait `seconds` for it to exit by itself, kill what is left, and release everything."""
        has_ended(self._core, seconds)
        self.kill()
        self._core.outcome(_TO_REAP)
        self._workers.kill(_TO_REAP)
        self._release()
        ownership.remove_stale_names()

    def _release(self) -> None:
        self._workers.close()
        self._core.close()
        self._release_ends()

    def _release_ends(self) -> None:
        for end in (self.link, self._alive):
            end.close()
        ownership.remove_directory(self._folder)
