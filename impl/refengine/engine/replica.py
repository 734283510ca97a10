"""A replica as its supervisor keeps it: the core's process, its link, its workers' processes."""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

from .. import ownership
from ..base.fds import own
from ..executor.errors import how_it_ended
from ..executor.process import ChildProcess, has_ended, send_signal
from .core_process import Birth, be_core
from .messages import Close, Down, FromChild, Ready, ToChild
from .worker_processes import WorkerProcesses

_SPAWN = multiprocessing.get_context("spawn")
_TO_BE_TOLD = 0.5  # seconds from a process's end to its status
_TO_REAP = 3.0  # seconds for a process to be gone that was killed


class Replica:
    """One life of a replica. It is started at once, and ends when this process does."""

    def __init__(self, birth: Birth, process: Callable[..., BaseProcess] = _SPAWN.Process) -> None:
        self.name, self.life = birth.name, birth.life
        self.ready: Ready | None = None
        self.listens = True
        """Whether more may come of it."""
        self._cause = ""
        self._core: ChildProcess | None = None
        self._workers = WorkerProcesses()
        self._folder = Path(birth.folder)
        self.link, theirs = multiprocessing.Pipe()
        hears_death, self._alive = multiprocessing.Pipe(duplex=False)
        for end in (self.link, self._alive):
            own(end)
        self._process = process(target=be_core, args=(birth, theirs, hears_death), name=birth.name)
        try:
            self._process.start()
            self._core = ChildProcess(self.pid)
        except BaseException:
            self._let_go()
            raise
        finally:
            theirs.close()
            hears_death.close()

    @property
    def pid(self) -> int:
        """The core's."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def sentinel(self) -> int:
        """Readable once the core has ended."""
        return self._process.sentinel

    @property
    def votes(self) -> str:
        """Where other cores find it, once it serves."""
        return "" if self.ready is None else self.ready.votes

    def pids(self) -> dict[str, int]:
        """Its live processes by name."""
        core = self._core
        found = {} if core is None or has_ended(core) else {self.name: core.pid}
        workers = self._workers.alive()
        return found | {f"{self.name}/worker-{rank}": pid for rank, pid in workers.items()}

    def say(self, message: ToChild) -> None:
        """To the core, if it is there."""
        with contextlib.suppress(OSError):
            self.link.send(message)

    def hear(self) -> list[FromChild]:
        """What the core has said; nothing, in the end, if it has ended."""
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
            elif isinstance(message, Down):
                self._cause = message.cause
        return said

    def cause(self) -> str:
        """Why it ended, as far as that is known."""
        if self._cause:
            return f"has ended: {self._cause}"
        self._process.join(_TO_BE_TOLD)
        code = self._process.exitcode
        if code is None:
            return "was ended"
        return how_it_ended(-code if code < 0 else None, code)

    def kill(self) -> None:
        """Have it end now, stopped or not."""
        if self._core is not None:
            send_signal(self._core, signal.SIGKILL)
        self._workers.kill()

    def leave(self) -> None:
        """Ask it to end."""
        self.say(Close())

    def end(self, seconds: float = 0.0) -> None:
        """See to it that it is gone, and give everything back; so long it may leave by itself."""
        self._process.join(seconds)
        self.kill()
        self._process.join(_TO_REAP)
        self._workers.kill(_TO_REAP)
        self._let_go()
        ownership.sweep()

    def _let_go(self) -> None:
        self._workers.close()
        if self._core is not None:
            self._core.close()
        for end in (self.link, self._alive):
            end.close()
        ownership.remove_directory(self._folder)
