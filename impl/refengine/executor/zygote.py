"""The zygote: a process of one thread that imports once, and forks every worker from that state.

It is told to fork by `zygote_client`, reaps what it forked and says how that ended. Whatever a
worker leaves running becomes its child. It ends with its owner, after everything it forked.
"""

import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from socket import socket
from typing import NoReturn

from ..ownership import sweep
from . import ending
from .children import await_end
from .link import MOST_BYTES, Link
from .worker import be_worker

_SET_CHILD_SUBREAPER = 36
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
GOODBYE = "goodbye"
"""From an owner that lives on, and waits for our end."""
_TO_END = 2.0
"""Seconds that workers are given when the owner is gone: the kernel ends them within one."""


def main() -> NoReturn:
    """`argv`: path, link, death pipe, and the modules to import."""
    link, death = Link(socket(fileno=int(sys.argv[2]))), int(sys.argv[3])
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # not as nohup may have left it
    owner = select.poll()
    owner.register(death, 0)
    if owner.poll(0):
        os._exit(1)
    for fd in (link.fileno(), death):
        os.set_inheritable(fd, False)
    _be_nobodys_group()
    os.environ.update(_ONE_THREAD)  # each worker gets its own settings later
    try:
        _import(sys.argv[4:])
    except BaseException:
        link.say(traceback.format_exc()[-MOST_BYTES // 4 :])
        sys.exit(1)
    os.close(death)  # from here on the link's end is heard at once
    link.say(True)
    born = _Zygote(link).serve()
    ending.run_and_exit(partial(_live, born))


def _be_nobodys_group() -> None:
    """A terminal's Ctrl-C is its owner's business; orphans come here."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    if nothing:  # else it has that place itself
        os.dup2(nothing, 0)
        os.close(nothing)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text("refengine:zygote"[:15])


def _import(names: list[str]) -> None:
    for name in names:
        importlib.import_module(name)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # a pool of threads would not survive the fork
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RuntimeError(f"importing {names} started {threads - 1} threads: no fork is safe")
    gc.collect()
    gc.freeze()


def _live(link: Link) -> int:
    ending.begin()
    return be_worker(link)


class _Zygote:
    """Serves until the owner is gone. In a forked child `serve` returns the worker's link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._owner = link.maker()
        self._reports: dict[int, Link] = {}
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def serve(self) -> Link:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, _note)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        poller = select.poll()
        poller.register(self._link.fileno(), select.POLLIN)
        poller.register(self._woken, select.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
            self._reap()
            if self._link.fileno() in ready:
                try:
                    word, descriptors = self._link.hear()
                except EOFError:
                    self._end(orphaned=True)
                if word == GOODBYE:
                    self._end(orphaned=False)
                if (born := self._fork(descriptors)) is not None:
                    return born

    def _fork(self, descriptors: list[int]) -> Link | None:
        link_fd, report_fd, *streams = descriptors
        report = Link(socket(fileno=report_fd))
        try:
            pid = os.fork()
        except OSError:
            report.close()  # the owner hears of it
            pid = -1
        if pid == 0:
            return self._born(link_fd, report, streams)
        for fd in (link_fd, *streams):
            os.close(fd)
        if pid > 0:
            pidfd = os.pidfd_open(pid)
            report.say(pid, pidfd)
            os.close(pidfd)
            self._reports[pid] = report
        return None

    def _born(self, link_fd: int, report: Link, streams: list[int]) -> Link:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for fd, stream in zip((1, 2), streams, strict=False):
            os.dup2(stream, fd)
            os.close(stream)
        for other in (self._link, report, *self._reports.values()):
            other.close()
        self._reports.clear()
        self._owner.close()
        os.close(self._woken)
        os.close(self._wake)
        return Link(socket(fileno=link_fd))

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            report = self._reports.pop(pid, None)
            if report is not None:
                report.say(status)
                report.close()

    def _end(self, *, orphaned: bool) -> NoReturn:
        """The owner is gone, or needs us no more; so will be everything that it had us start."""
        deadline = time.monotonic() + _TO_END
        poller = select.poll()
        poller.register(self._woken, select.POLLIN)
        while _children() and time.monotonic() < deadline:
            poller.poll((deadline - time.monotonic()) * 1000)
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4096)
            self._reap()
        while kids := _children():  # each one that ends may leave us its own
            for kid in kids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(kid, signal.SIGKILL)
            for kid in kids:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(kid, 0)
        if orphaned:  # and what the owner left is swept once it is dead
            await_end(self._owner, _TO_END)
        sweep()
        os._exit(0)


def _note(_number: int, _frame: object) -> None:
    """Being called is enough: the wake-up descriptor has a byte now."""


def _children() -> list[int]:
    me = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{me}/task/{me}/children").read_text().split()]
