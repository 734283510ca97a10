"""How worker processes come to be: by a zygote, or by multiprocessing's three methods (W9)."""

import contextlib
import multiprocessing
import os
import sys
from functools import partial
from multiprocessing import reduction
from multiprocessing.context import ForkServerContext, SpawnContext
from socket import socket
from typing import Any, Protocol

from . import ending, fork_server, held
from .children import Forked, Outcome, Process, has_ended
from .held import End, hold
from .link import Link
from .settings import PoolSettings
from .worker import be_worker
from .zygote_client import Zygote


class Start(Protocol):
    """Starts a process that is a worker to whoever has the other end of `theirs`."""

    def __call__(self, theirs: Link, name: str) -> Process:
        """Must be called in the main thread of a fork's parent; the caller closes `theirs`."""
        ...


def start_method(settings: PoolSettings) -> Start:
    """What these settings ask for."""
    if settings.start == "zygote":
        return Zygote.shared(settings.preload).fork
    if settings.start == "fork":
        return fork
    context = multiprocessing.get_context(settings.start)
    assert isinstance(context, SpawnContext | ForkServerContext)
    if isinstance(context, ForkServerContext):
        fork_server.preload(context)
    return partial(_by_multiprocessing, context)


def fork(theirs: Link, name: str) -> Process:
    """A plain fork. It inherits memory and open files, but nobody's sockets and pipes."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    pid = os.fork()
    if pid == 0:
        ending.run_and_exit(partial(_forked, theirs))
    return Forked(pid)


def _forked(link: Link) -> int:
    ending.begin()
    held.let_go({link.fileno()})
    return be_worker(link)


def _by_multiprocessing(
    context: SpawnContext | ForkServerContext, theirs: Link, name: str
) -> Process:
    start: Any = context.Process
    process = start(target=_born, args=(_Passed(theirs),), name=name)
    process.start()
    return _Child(process)


class _Passed:
    """A link on its way into a new process."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (reduction.DupFd(self._link.fileno()),)


def _rebuilt(passed: Any) -> Link:
    fd: int = passed.detach()
    os.set_inheritable(fd, False)
    return Link(socket(fileno=fd))


def _born(link: Link) -> None:
    sys.exit(be_worker(link))


class _Child:
    """A process of multiprocessing's."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid: int = process.pid
        try:
            self.pidfd = End(os.pidfd_open(self.pid))
        except ProcessLookupError:  # a fork server has reaped it already
            self.pidfd = End(-1)
        hold(self.pidfd)

    def outcome(self, seconds: float) -> Outcome | None:
        """See `Process`."""
        if not has_ended(self, seconds):
            return None
        code: int | None = self._process.exitcode
        if code is None:  # a fork server tells a moment later
            self._process.join(seconds)
            code = self._process.exitcode
        if code is None:
            return None
        return Outcome(signal=-code) if code < 0 else Outcome(status=code)

    def close(self) -> None:
        """See `Process`."""
        self.pidfd.close()
