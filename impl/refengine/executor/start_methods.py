"""Start methods of worker processes: a zygote, or multiprocessing's three (SPEC W9)."""

import contextlib
import multiprocessing
import os
import sys
from functools import partial
from multiprocessing import reduction
from multiprocessing.context import ForkServerContext, SpawnContext
from socket import socket
from typing import Any, Protocol

from ..base.fds import Fd, close_inherited, own
from . import mp_fork_server
from .fork_server import Zygote
from .process import (
    ChildProcess,
    Link,
    Outcome,
    Process,
    drop_parent_exit_handlers,
    has_ended,
    run_and_exit,
)
from .settings import PoolSettings
from .worker import worker_main


class StartFunction(Protocol):
    """Starts a process that is a worker to the owner of the other end of `child_link`."""

    def __call__(self, child_link: Link, name: str) -> Process:
        """Start it, from the main thread of a fork's parent; the caller closes `child_link`."""
        ...


def start_method(settings: PoolSettings) -> StartFunction:
    """Return the function that these settings ask for."""
    if settings.start == "zygote":
        return Zygote.shared(settings.preload).fork
    if settings.start == "fork":
        return fork
    context = multiprocessing.get_context(settings.start)
    assert isinstance(context, SpawnContext | ForkServerContext)
    if isinstance(context, ForkServerContext):
        mp_fork_server.preload(context)
    return partial(_by_multiprocessing, context)


def fork(child_link: Link, name: str) -> Process:
    """Fork this process. The worker inherits memory and open files, but no sockets and pipes."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    pid = os.fork()
    if pid == 0:
        run_and_exit(partial(_run_forked, child_link))
    return ChildProcess(pid)


def _run_forked(link: Link) -> int:
    drop_parent_exit_handlers()
    close_inherited({link.fileno()})
    return worker_main(link)


def _by_multiprocessing(
    context: SpawnContext | ForkServerContext, child_link: Link, name: str
) -> Process:
    start: Any = context.Process
    process = start(target=_run_new, args=(_PickledLink(child_link),), name=name)
    process.start()
    return _MultiprocessingChild(process)


class _PickledLink:
    """A link that is passed to a new process."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_link, (reduction.DupFd(self._link.fileno()),)


def _rebuild_link(passed: Any) -> Link:
    fd: int = passed.detach()
    os.set_inheritable(fd, False)
    return Link(socket(fileno=fd))


def _run_new(link: Link) -> None:
    sys.exit(worker_main(link))


class _MultiprocessingChild:
    """A process that multiprocessing started."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid: int = process.pid
        try:
            self.pidfd = Fd(os.pidfd_open(self.pid))
        except ProcessLookupError:  # a fork server has reaped it already
            self.pidfd = Fd(-1)
        own(self.pidfd)

    def outcome(self, seconds: float) -> Outcome | None:
        """See `Process`."""
        if not has_ended(self, seconds):
            return None
        code: int | None = self._process.exitcode
        if code is None:  # a fork server reports it a moment later
            self._process.join(seconds)
            code = self._process.exitcode
        if code is None:
            return None
        return Outcome(signal=-code) if code < 0 else Outcome(status=code)

    def close(self) -> None:
        """See `Process`."""
        self.pidfd.close()
