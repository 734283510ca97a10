"""A front end as the engine's process keeps it: its process, its link, its open requests."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import socket
from collections.abc import Callable
from multiprocessing.process import BaseProcess

from ...base.fds import own
from ...engine import Stream
from ...executor.errors import how_it_ended
from ...executor.process import ChildProcess, send_signal, send_signal_at_hangup
from .link import Link
from .process import Birth, be_front_end

_SPAWN = multiprocessing.get_context("spawn")
_TO_BE_TOLD = 0.5  # seconds from a process's end to its status
_TO_REAP = 3.0  # seconds for a process to be gone that was killed


class Handle:
    """One life of a front end. It is started at once, and ends when this process does."""

    def __init__(
        self,
        birth: Birth,
        listener: socket.socket,
        now: float,
        process: Callable[..., BaseProcess] = _SPAWN.Process,
    ) -> None:
        self.name, self.life = birth.name, birth.life
        self.requests: dict[int, Stream] = {}
        """By the front end's number, those that have not ended."""
        self.heard = now
        self.ready = False
        """Whether it has come to answer."""
        self.open = 0
        """Requests of its clients, as it said last."""
        self.draining = False
        """Whether it refuses new ones, as it said last."""
        self.behind = False
        """Whether its requests were aborted, and it has not taken that yet."""
        self._forked: ChildProcess | None = None
        ours, theirs = socket.socketpair()
        self.link = Link(ours)
        hears_death, self._alive = multiprocessing.Pipe(duplex=False)
        for end in (ours, self._alive):
            own(end)
        args = (birth, theirs, hears_death, listener)
        self._process = process(target=be_front_end, args=args, name=birth.name)
        try:
            self._process.start()
            self._forked = ChildProcess(self.pid)
            send_signal_at_hangup(hears_death.fileno(), self.pid, signal.SIGKILL)
        except BaseException:
            self._let_go()
            raise
        finally:
            theirs.close()
            hears_death.close()

    @property
    def pid(self) -> int:
        """The process's."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def sentinel(self) -> int:
        """Readable once the process has ended."""
        return self._process.sentinel

    def cause(self) -> str:
        """Why it ended."""
        self._process.join(_TO_BE_TOLD)
        code = self._process.exitcode
        if code is None:
            return "has closed its link"
        return how_it_ended(-code if code < 0 else None, code)

    def abort(self) -> None:
        """Cancel all that it has asked for."""
        requests, self.requests = self.requests, {}
        for stream in requests.values():
            stream.cancel()

    def end(self, seconds: float = 0.0) -> None:
        """See to it that it is gone; so long it may leave by itself."""
        self._process.join(seconds)
        if self._forked is not None:
            send_signal(self._forked, signal.SIGKILL)
        self._process.join(_TO_REAP)
        self.abort()
        self._let_go()

    def _let_go(self) -> None:
        self.link.close()
        with contextlib.suppress(OSError):
            self._alive.close()
        if self._forked is not None:
            self._forked.close()
