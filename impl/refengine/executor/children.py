"""A worker process as its parent sees it: its pid, its end, and what it ended of."""

import contextlib
import errno
import os
import select
import signal
from dataclasses import dataclass
from typing import Protocol

from .held import End, hold

_WHOLE_GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP, from Linux 6.9


@dataclass(frozen=True)
class Outcome:
    """How a process ended, as far as is known."""

    signal: int | None = None
    status: int | None = None

    @classmethod
    def of(cls, wait_status: int) -> "Outcome":
        """From what `waitpid` gives."""
        code = os.waitstatus_to_exitcode(wait_status)
        return cls(signal=-code) if code < 0 else cls(status=code)


class Process(Protocol):
    """What a start method gives. It is told apart from others by its pidfd, never by number."""

    pid: int
    pidfd: End

    def outcome(self, seconds: float) -> Outcome | None:
        """How it ended, once it has; waits at most that long to be told, and reaps it."""
        ...

    def close(self) -> None:
        """Let go of the descriptors."""
        ...


def has_ended(process: Process, seconds: float = 0.0) -> bool:
    """Whether it has, that much later at most."""
    return await_end(process.pidfd, seconds)


def await_end(pidfd: End, seconds: float) -> bool:
    """The same for a process of which there is only this."""
    if pidfd.fileno() < 0:
        return True
    poller = select.poll()
    poller.register(pidfd.fileno(), select.POLLIN)
    return bool(poller.poll(seconds * 1000))


def send(process: Process, number: int) -> None:
    """Signal the process, if it is still there."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(process.pidfd.fileno(), number)


def kill_group(process: Process) -> None:
    """End it, and every process of its group that is still there. Call it before it is reaped."""
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
    send(process, signal.SIGKILL)  # it may not have come to have a group of its own


class Forked:
    """A child of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.pidfd = End(os.pidfd_open(pid))
        hold(self.pidfd)
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
