"""A front end for the engine's process: its process, its link, its open requests."""

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
from .process import FrontEndInit, front_end_main

_SPAWN = multiprocessing.get_context("spawn")
_TO_BE_TOLD = 0.5  # seconds from a process's end to its exit status
_TO_REAP = 3.0  # seconds for a killed process to be gone


class FrontEndHandle:
    """One process of a front end. It starts at once, and ends when this process does."""

    def __init__(
        self,
        init: FrontEndInit,
        listener: socket.socket,
        now: float,
        process: Callable[..., BaseProcess] = _SPAWN.Process,
    ) -> None:
        self.name, self.life = init.name, init.life
        self.requests: dict[int, Stream] = {}
        """Requests that have not ended, by the front end's number."""
        self.heard = now
        self.ready = False
        """True once it answers HTTP."""
        self.open = 0
        """Number of its clients' requests, as reported last."""
        self.draining = False
        """True if it refuses new requests, as reported last."""
        self.behind = False
        """True if its requests were aborted, and it has not read that yet."""
        self._forked: ChildProcess | None = None
        ours, theirs = socket.socketpair()
        self.link = Link(ours)
        hears_death, self._alive = multiprocessing.Pipe(duplex=False)
        for end in (ours, self._alive):
            own(end)
        args = (init, theirs, hears_death, listener)
        self._process = process(target=front_end_main, args=args, name=init.name)
        try:
            self._process.start()
            self._forked = ChildProcess(self.pid)
            send_signal_at_hangup(hears_death.fileno(), self.pid, signal.SIGKILL)
        except BaseException:
            self._release()
            raise
        finally:
            theirs.close()
            hears_death.close()

    @property
    def pid(self) -> int:
        """Process id of the front end."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def sentinel(self) -> int:
        """Descriptor that is readable once the process has ended."""
        return self._process.sentinel

    def cause(self) -> str:
        """Describe why it ended."""
        self._process.join(_TO_BE_TOLD)
        code = self._process.exitcode
        if code is None:
            return "has closed its link"
        return how_it_ended(-code if code < 0 else None, code)

    def abort(self) -> None:
        """Cancel all its requests."""
        requests, self.requests = self.requests, {}
        for stream in requests.values():
            stream.cancel()

    def end(self, seconds: float = 0.0) -> None:
        """Wait `seconds` for it to exit by itself, then kill it and release everything."""
        self._process.join(seconds)
        if self._forked is not None:
            send_signal(self._forked, signal.SIGKILL)
        self._process.join(_TO_REAP)
        self.abort()
        self._release()

    def _release(self) -> None:
        self.link.close()
        with contextlib.suppress(OSError):
            self._alive.close()
        if self._forked is not None:
            self._forked.close()
