"""The zygote: a process of one thread that imports once, and forks every worker from that state.

Its owner holds a `Zygote`, by which it starts the process once, has workers forked, and ends it.
The zygote reaps the workers and reports how each ended; it becomes the parent of every process
that a worker leaves running. It ends with its owner, after every process that it forked.

A process that a zygote forked may need one itself, as a core of the engine does: a fork of its own
(`Zygote.fork_self`) costs milliseconds, and another import of torch two seconds.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import util
from pathlib import Path
from socket import socket
from typing import Any, NoReturn

from ..base.fds import Fd, close_inherited, own
from ..base.ownership import remove_stale_names
from .errors import ZygoteFailed
from .process import (
    MAX_MESSAGE_BYTES,
    ChildProcess,
    Link,
    Outcome,
    await_end,
    drop_parent_exit_handlers,
    has_ended,
    link_pair,
    run_and_exit,
    send_signal,
    send_signal_at_hangup,
)

_SET_CHILD_SUBREAPER = 36
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
GOODBYE = "goodbye"
"""Message of an owner that lives on, and waits for the zygote's end."""
_WORKERS_EXIT_WITHIN = 2.0
"""Seconds that workers have when the owner is gone: the kernel ends them within one."""


def main() -> NoReturn:
    """Run the zygote. `argv`: path, link, death pipe, and the modules to import."""
    link, death_pipe = Link(socket(fileno=int(sys.argv[2]))), int(sys.argv[3])
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # not as nohup may have left it
    owner = select.poll()
    owner.register(death_pipe, 0)
    if owner.poll(0):
        os._exit(1)
    for fd in (link.fileno(), death_pipe):
        os.set_inheritable(fd, False)
    _detach()
    os.environ.update(_ONE_THREAD)  # each worker gets its own settings later
    try:
        _import_preloads(sys.argv[4:])
    except BaseException:
        link.send(traceback.format_exc()[-MAX_MESSAGE_BYTES // 4 :])
        sys.exit(1)
    os.close(death_pipe)  # from here on the end of the link is noticed at once
    _serve(link)


def _serve(link: Link) -> NoReturn:
    """Fork processes for the owner until it is gone; in each of them, run what it is to be."""
    link.send(True)
    entry, child_link = _ForkServer(link).serve()
    run_and_exit(partial(_run, entry, child_link))


def _detach() -> None:
    """Leave the owner's process group and its standard input; become the parent of orphans.

    A terminal's Ctrl-C is for the owner alone.
    """
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    if nothing:  # else it is descriptor 0 already
        os.dup2(nothing, 0)
        os.close(nothing)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text("refengine:zygote"[:15])


def _import_preloads(names: list[str]) -> None:
    gc.disable()  # what is imported is no garbage: looking for some takes a fifth of torch's import
    for name in names:
        importlib.import_module(name)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # a pool of threads would not survive the fork
    if _threads() != 1:
        raise RuntimeError(f"importing {names} started {_threads() - 1} threads: no fork is safe")
    gc.collect()
    gc.freeze()
    gc.enable()


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _run(entry: str, link: Link) -> int:
    drop_parent_exit_handlers()
    module, _, function = entry.partition(":")
    main: Callable[[Link], int] = getattr(importlib.import_module(module), function)
    return main(link)


class _ForkServer:
    """Forks workers until the owner is gone. In a child `serve` returns its entry and its link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._owner = link.creator_pidfd()
        self._reports: dict[int, Link] = {}
        self._wakeup_reader, self._wakeup_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def serve(self) -> tuple[str, Link]:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, _on_sigchld)
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        poller = select.poll()
        poller.register(self._link.fileno(), select.POLLIN)
        poller.register(self._wakeup_reader, select.POLLIN)
        if self._owner.fileno() < 0:
            self._exit(orphaned=True)
        poller.register(self._owner.fileno(), select.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._owner.fileno() in ready:  # the link may stay open in a fork of the owner's
                self._exit(orphaned=True)
            if self._wakeup_reader in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup_reader, 4096)
            self._reap()
            if self._link.fileno() in ready:
                try:
                    message, descriptors = self._link.receive()
                except EOFError:
                    self._exit(orphaned=True)
                if message == GOODBYE:
                    self._exit(orphaned=False)
                if (child_link := self._fork(descriptors)) is not None:
                    return message, child_link

    def _fork(self, descriptors: list[int]) -> Link | None:
        link_fd, report_fd, *streams = descriptors
        report = Link(socket(fileno=report_fd))
        try:
            pid = os.fork()
        except OSError:
            report.close()  # the owner notices that
            pid = -1
        if pid == 0:
            return self._become_worker(link_fd, report, streams)
        for fd in (link_fd, *streams):
            os.close(fd)
        if pid > 0:
            pidfd = os.pidfd_open(pid)
            report.send(pid, pidfd)
            os.close(pidfd)
            self._reports[pid] = report
        return None

    def _become_worker(self, link_fd: int, report: Link, streams: list[int]) -> Link:
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
        os.close(self._wakeup_reader)
        os.close(self._wakeup_writer)
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
                report.send(status)
                report.close()

    def _exit(self, *, orphaned: bool) -> NoReturn:
        """End every process that was started for the owner, which is gone or needs them no more."""
        deadline = time.monotonic() + _WORKERS_EXIT_WITHIN
        poller = select.poll()
        poller.register(self._wakeup_reader, select.POLLIN)
        while _child_pids() and time.monotonic() < deadline:
            poller.poll((deadline - time.monotonic()) * 1000)
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeup_reader, 4096)
            self._reap()
        while children := _child_pids():  # the children of each one that ends come here
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            for child in children:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(child, 0)
        if orphaned:  # names that the owner left are swept once it is dead
            await_end(self._owner, _WORKERS_EXIT_WITHIN)
        remove_stale_names()
        os._exit(0)


def _on_sigchld(_number: int, _frame: object) -> None:
    """Do nothing: the call alone has put a byte into the wake-up descriptor."""


def _child_pids() -> list[int]:
    me = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{me}/task/{me}/children").read_text().split()]


_WORKER = "refengine.executor.worker:worker_main"
_ANSWER_WITHIN = 120.0
_EXIT_WITHIN = 3.0
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from refengine.executor import fork_server; fork_server.main()"
)
_util: Any = util


class Zygote:
    """The owner's handle of a process that has imported what workers need, and forks them.

    That process has one thread and ends with this one, as then does every process that it forked.
    Use `shared`: one zygote for each set of preloads serves every pool of this process.

    Args:
        preload: names of the modules that it imports.
        spawn: starts the process, with descriptors of its link and of its death pipe; returns the
            pid. None: a new interpreter.
    """

    def __init__(
        self,
        preload: tuple[str, ...],
        spawn: Callable[[tuple[str, ...], tuple[int, int]], int] | None = None,
    ) -> None:
        self.preload = preload
        self._link, child_link = link_pair()
        own(self._link)
        self._preload_outcome: list[object] = []
        death_pipe, death_pipe_writer = os.pipe2(os.O_CLOEXEC)
        self._death_pipe_writer = Fd(death_pipe_writer)
        own(self._death_pipe_writer)
        try:
            descriptors = child_link.fileno(), death_pipe
            self._process = ChildProcess((spawn or _spawn)(preload, descriptors))
            send_signal_at_hangup(death_pipe, self._process.pid)
        finally:
            child_link.close()
            os.close(death_pipe)
        util.Finalize(
            self,
            _end_zygote,
            args=(self._link, self._death_pipe_writer, self._process),
            exitpriority=10,
        )

    @classmethod
    def shared(cls, preload: tuple[str, ...]) -> "Zygote":
        """Return this process's zygote with these preloads; start it if there is none."""
        found = _shared.get(preload)
        if found is None or has_ended(found._process):
            found = _shared[preload] = cls(preload)
        return found

    @classmethod
    def fork_self(cls, preload: tuple[str, ...]) -> "Zygote":
        """Make this process's zygote a fork of it, in milliseconds and without another import.

        For a process that has imported these modules, has one thread, and no socket or pipe that a
        worker may need; RuntimeError if it lacks a module or has another thread.
        """
        lacks = [name for name in preload if name not in sys.modules]
        if lacks or _threads() != 1:
            raise RuntimeError(f"{_threads()} threads, and {lacks} are not imported: no fork of it")
        made = _shared[preload] = cls(preload, _fork_this)
        return made

    def warm(self, timeout: float | None = None) -> None:
        """Wait until the zygote has imported its preloads. Raises TimeoutError, or ZygoteFailed."""
        if not self._preload_outcome:
            if not self._link.has_message(timeout):
                raise TimeoutError(f"the zygote has not imported {self.preload} in {timeout} s")
            try:
                self._preload_outcome.append(self._link.receive()[0])
            except EOFError:
                self._preload_outcome.append("it has ended")
        if self._preload_outcome[0] is not True:
            raise ZygoteFailed(self._process.pid, str(self._preload_outcome[0]))

    def fork(
        self,
        child_link: Link,
        name: str,
        entry: str = _WORKER,
        *,
        within: float = _ANSWER_WITHIN,
    ) -> "ForkedWorker":
        """Fork a worker; see `start_methods.StartFunction`.

        Args:
            entry: "module:function" of what the process runs, with the link, to its exit status.
            within: seconds for the zygote to answer; it may have to import first.

        Raises:
            ZygoteFailed: it has ended, or did not answer in time.
        """
        ours, report = link_pair()
        own(ours)
        try:
            try:
                sent = self._link.send(entry, child_link.fileno(), report.fileno(), *_streams())
            finally:
                report.close()
            return self._receive_worker(ours, within) if sent else self._raise_failure()
        except BaseException:
            ours.close()
            raise

    def _receive_worker(self, report: Link, within: float) -> "ForkedWorker":
        if not report.has_message(within):
            raise ZygoteFailed(self._process.pid, f"it did not answer in {within:g} s")
        try:
            pid, (pidfd,) = report.receive()
        except EOFError:
            self._raise_failure()
        return ForkedWorker(pid, pidfd, report, self)

    def _raise_failure(self) -> NoReturn:
        with contextlib.suppress(TimeoutError):
            self.warm(_EXIT_WITHIN)
        raise ZygoteFailed(self._process.pid, "it has ended")

    @property
    def pid(self) -> int:
        """Process id of the zygote."""
        return self._process.pid

    def kill(self) -> None:
        """End a zygote that does nothing any more; what it forked lives on."""
        send_signal(self._process, signal.SIGKILL)

    def close(self) -> None:
        """End the zygote."""
        if _shared.get(self.preload) is self:
            del _shared[self.preload]
        _end_zygote(self._link, self._death_pipe_writer, self._process)


class ForkedWorker:
    """A worker that the zygote forked, and whose outcome the zygote reports."""

    def __init__(self, pid: int, pidfd: int, report: Link, zygote: Zygote | None = None) -> None:
        self.pid, self.pidfd = pid, Fd(pidfd)
        own(self.pidfd)
        # A zygote that nobody refers to is ended, and its workers with it. `shared` may refer to
        # another one by now: two threads that find none at the same time make one each.
        self._zygote = zygote
        self._report = report
        self._outcome: Outcome | None = None

    def outcome(self, seconds: float) -> Outcome | None:
        """See `Process`."""
        if self._outcome is None and self._report.has_message(seconds):
            try:
                self._outcome = Outcome.of(self._report.receive()[0])
            except EOFError:
                self._outcome = Outcome()  # the zygote ended before it
        return self._outcome

    def close(self) -> None:
        """See `Process`."""
        self.pidfd.close()
        self._report.close()
        self._zygote = None


_shared: dict[tuple[str, ...], Zygote] = {}
os.register_at_fork(after_in_child=_shared.clear)


def _spawn(preload: Sequence[str], descriptors: tuple[int, int]) -> int:
    flags: list[str] = _util._args_from_interpreter_flags()
    executable = sys.executable
    path = json.dumps([os.path.abspath(p or ".") for p in sys.path])  # noqa: PTH100  as it is
    arguments = [executable, *flags, "-c", _PROGRAM, path, *map(str, descriptors), *preload]
    return _util.spawnv_passfds(os.fsencode(executable), arguments, descriptors)


def _fork_this(_preload: Sequence[str], descriptors: tuple[int, int]) -> int:
    """Fork a zygote of this process; it leaves the death pipe, which is for the time of imports."""
    pid = os.fork()
    if pid == 0:
        run_and_exit(partial(_become_zygote, descriptors[0]))
    return pid


def _become_zygote(link_fd: int) -> NoReturn:
    drop_parent_exit_handlers()
    close_inherited({link_fd})
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _detach()
    os.environ.update(_ONE_THREAD)
    gc.collect()
    gc.freeze()
    _serve(Link(socket(fileno=link_fd)))


def _streams() -> tuple[int, ...]:
    """Return the descriptors of the worker's standard output and error; none: as the zygote's."""
    try:
        for fd in (1, 2):
            os.fstat(fd)
    except OSError:
        return ()
    return 1, 2


def _end_zygote(link: Link, death_pipe_writer: Fd, process: ChildProcess) -> None:
    link.send(GOODBYE)
    link.close()
    if not has_ended(process, _EXIT_WITHIN):
        death_pipe_writer.close()  # the kernel's turn
        has_ended(process, _EXIT_WITHIN)
    death_pipe_writer.close()
    with contextlib.suppress(OSError):
        process.outcome(0.0)
    process.close()
