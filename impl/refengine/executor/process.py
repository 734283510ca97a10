"""Processes and what connects parent and child: exit, signals, link, death pipe, progress, title.

The kernel itself ends a worker whose parent is gone, whatever the worker is doing (SPEC W4). A
*death pipe* has its writing end in the parent alone, so it hangs up when the parent ends in any
way. At that the kernel sends SIGHUP to the reader's whole process group, children included. An
ordinary program dies of it. A worker takes a second to tidy up: its handler is the C library's
`alarm`, which needs no interpreter. Called with the signal's number, 1, it has SIGALRM end the
process one second later, even if native code never gives the interpreter's lock back.
"""

import array
import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import util
from pathlib import Path
from typing import Any, NoReturn, Protocol, TextIO

from ..base.clock import poll_milliseconds
from ..base.fds import Fd, own
from ..base.liveness import pidfd_of
from ..base.security import peer_of

_WHOLE_GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP, from Linux 6.9


@dataclass(frozen=True)
class Outcome:
    """The signal or the status with which a process ended, as far as is known."""

    signal: int | None = None
    status: int | None = None

    @classmethod
    def of(cls, wait_status: int) -> "Outcome":
        """Make an outcome of the status that `waitpid` returns."""
        code = os.waitstatus_to_exitcode(wait_status)
        return cls(signal=-code) if code < 0 else cls(status=code)


class Process(Protocol):
    """A process that a start method made; identified by its pidfd, never by its number."""

    pid: int
    pidfd: Fd

    def outcome(self, seconds: float) -> Outcome | None:
        """Return the outcome once the process has ended, and reap it; wait at most that long."""
        ...

    def close(self) -> None:
        """Close the descriptors."""
        ...


def has_ended(process: Process, seconds: float = 0.0) -> bool:
    """Wait at most that long for the end of a process; return whether it has ended."""
    return await_end(process.pidfd, seconds)


def await_end(pidfd: Fd, seconds: float) -> bool:
    """Do the same for a process of which there is only a pidfd."""
    if pidfd.fileno() < 0:
        return True
    poller = select.poll()
    poller.register(pidfd.fileno(), select.POLLIN)
    return bool(poller.poll(poll_milliseconds(seconds)))


def send_signal(process: Process, number: int) -> None:
    """Send a signal to the process, if it is still there."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(process.pidfd.fileno(), number)


def kill_group(process: Process) -> None:
    """Kill a process that is not reaped yet, and every process of its group that is still there."""
    fd = process.pidfd.fileno()
    if fd < 0:
        return
    try:
        signal.pidfd_send_signal(fd, signal.SIGKILL, None, _WHOLE_GROUP)
    except ProcessLookupError:
        pass
    except OSError as error:
        if error.errno == errno.EINVAL:  # an older kernel
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
    send_signal(process, signal.SIGKILL)  # the process may have no group of its own yet


class ChildProcess:
    """A child of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.pidfd = Fd(os.pidfd_open(pid))
        own(self.pidfd)
        self._outcome: Outcome | None = None

    def outcome(self, seconds: float) -> Outcome | None:
        """See `Process`."""
        if self._outcome is None and has_ended(self, seconds):
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._outcome = Outcome.of(status)
        return self._outcome

    def close(self) -> None:
        """See `Process`."""
        self.pidfd.close()


MAX_MESSAGE_BYTES = 128 << 10
"""Size of the largest message; the sender must cut a longer text."""
_DESCRIPTORS = 253  # the most that the kernel passes at once


def link_pair() -> tuple["Link", "Link"]:
    """Return the parent's end and the worker's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Link(ours), Link(theirs)


class Link:
    """One end of a socket pair between parent and worker, for small messages and descriptors.

    A message arrives whole or not at all, whenever the other side dies.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def fileno(self) -> int:
        """Descriptor, for polling; -1 once closed."""
        return self.sock.fileno()

    def send(self, message: object, *descriptors: int) -> bool:
        """Send a message; return False if the other side is gone or does not read."""
        data = [pickle.dumps(message)]
        passed = array.array("i", descriptors)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)] if descriptors else []
        try:
            self.sock.sendmsg(data, rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            return False
        return True

    def receive(self) -> tuple[Any, list[int]]:
        """Wait for a message and its descriptors. EOFError once the other side has closed."""
        room = socket.CMSG_SPACE(_DESCRIPTORS * struct.calcsize("i"))
        take = self.sock.recvmsg
        try:
            try:
                data, rights, _, _ = take(MAX_MESSAGE_BYTES, room, socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError:  # closed before it had read all; its messages are there
                data, rights, _, _ = take(MAX_MESSAGE_BYTES, room, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise EOFError("the link is broken") from error
        if not data:
            raise EOFError("the other side has closed the link")
        fds = [fd for _, _, raw in rights for (fd,) in struct.iter_unpack("i", raw)]
        return pickle.loads(data), fds

    def has_message(self, seconds: float | None = 0.0) -> bool:
        """Wait at most that long; return whether there is something to read, the end included."""
        poller = select.poll()
        poller.register(self.sock, select.POLLIN)
        return bool(poller.poll(None if seconds is None else poll_milliseconds(seconds)))

    def creator_pidfd(self) -> Fd:
        """Return a pidfd of the process that made this pair; call it while that process lives."""
        return Fd(pidfd_of(self.sock, peer_of(self.sock)[0]))

    def close(self) -> None:
        """Idempotent."""
        with contextlib.suppress(OSError):
            self.sock.close()


_F_SETSIG = 10


def send_signal_at_hangup(fd: int, owner: int, number: signal.Signals = signal.SIGHUP) -> None:
    """Have the kernel signal `owner`, a pid or minus a process group, when the pipe `fd` hangs up.

    A process without a handler dies of it; of SIGKILL one that is stopped, too. The setting is a
    property of the pipe, not of the descriptor: the parent may make it before the worker runs its
    first line, and the worker again later.
    """
    with contextlib.suppress(ProcessLookupError):
        fcntl.fcntl(fd, fcntl.F_SETOWN, owner)
        fcntl.fcntl(fd, _F_SETSIG, number)
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def die_one_second_after_hangup() -> None:
    """Have this process die by SIGALRM one second after a SIGHUP."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal.restype = ctypes.c_void_p
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    libc.signal(signal.SIGHUP, ctypes.cast(libc.alarm, ctypes.c_void_p))


_util: Any = util
_threading: Any = threading


def drop_parent_exit_handlers() -> None:
    """Drop, in a forked process, the handlers that its parent registered for its own exit."""
    _util._finalizer_registry.clear()
    _util._run_after_forkers()


def run_and_exit(work: Callable[[], int]) -> NoReturn:
    """Run a forked process's work, clean up as multiprocessing's children do, and exit."""
    status = 1
    try:
        status = work()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        try:
            with contextlib.suppress(Exception):
                _util._exit_function()
                _threading._shutdown()
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
        finally:
            os._exit(status)


_WORDS_PER_WORKER = 4
_STARTED, _DONE, _SINCE = 0, 1, 2


class ProgressBoard:
    """Progress of each worker, in shared memory: calls begun, calls done, start of the present one.

    Each worker has four 8-byte words. `SharedLock` locks the same file.
    """

    def __init__(self, fd: int, world_size: int) -> None:
        """Map an open file of `new_progress_file`; the descriptor stays the caller's."""
        mapping = mmap.mmap(fd, _board_bytes(world_size))
        self._words = memoryview(mapping).cast("Q")

    def begin(self, rank: int) -> None:
        """Record that a worker enters a call."""
        at = rank * _WORDS_PER_WORKER
        self._words[at + _SINCE] = time.monotonic_ns()
        self._words[at + _STARTED] += 1

    def end(self, rank: int) -> None:
        """Record that a worker has left its call."""
        self._words[rank * _WORDS_PER_WORKER + _DONE] += 1

    def done(self, rank: int) -> int:
        """Return the number of calls that a worker has finished."""
        return self._words[rank * _WORDS_PER_WORKER + _DONE]

    def busy_for(self, rank: int) -> float | None:
        """Return the seconds since a worker entered its present call; None if it is in none."""
        at = rank * _WORDS_PER_WORKER
        if self._words[at + _STARTED] == self._words[at + _DONE]:
            return None
        return (time.monotonic_ns() - self._words[at + _SINCE]) / 1e9


def new_progress_file(world_size: int) -> int:
    """Return a descriptor of a file without a name, for a `ProgressBoard`."""
    fd = os.memfd_create("refengine-page", os.MFD_CLOEXEC)
    os.truncate(fd, _board_bytes(world_size))
    return fd


def _board_bytes(world_size: int) -> int:
    return -(-world_size * _WORDS_PER_WORKER * 8 // mmap.PAGESIZE) * mmap.PAGESIZE


_TITLE_BYTES = 15


def set_title(part: int | str) -> None:
    """Set the command's name in `ps` and `top`: a worker's rank, or a part's name, cut."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"refengine:{part}"[:_TITLE_BYTES])


def prefix_output(rank: int) -> None:
    """Begin each line on the standard streams with the worker's rank and pid."""
    prefix = f"(worker {rank} pid {os.getpid()}) "
    sys.stdout = _PrefixedStream(sys.stdout, prefix)
    sys.stderr = _PrefixedStream(sys.stderr, prefix)


class _PrefixedStream:
    """A text stream that puts a prefix before each line; all else is the stream's own.

    A line is written whole, or when it is flushed: parts that several workers print to one
    unbuffered stream would mix.
    """

    def __init__(self, stream: TextIO, prefix: str) -> None:
        self._stream, self._prefix = stream, prefix
        self._rest, self._midway = "", False

    def write(self, text: str) -> int:
        whole, newline, self._rest = (self._rest + text).rpartition("\n")
        if newline:
            self._stream.write("\n".join(map(self._marked, whole.split("\n"))) + "\n")
        return len(text)

    def flush(self) -> None:
        part, self._rest = self._rest, ""
        if part:
            self._stream.write(self._marked(part))
            self._midway = True
        self._stream.flush()

    def _marked(self, line: str) -> str:
        midway, self._midway = self._midway, False
        return self._prefix + line if line and not midway else line

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
