"""Creation of measuring processes, by a zygote for each peer, and their end."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from pathlib import Path
from typing import Any

from killpoint.errors import CannotWork
from killpoint.runner.observe.diagnosis import mapped_segments, stack

_START_WITHIN = 120.0
_ANSWER_WITHIN = 10.0
_END_WITHIN = 15.0
_SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_DISTURBING = ("PYTHONFAULTHANDLER", "PYTHONDEVMODE", "PYTHONMALLOC", "COVERAGE_PROCESS_START")


class NotMeasured(Exception):
    """One peer could not be measured in one place; the text says why."""


class Stuck(NotMeasured):
    """A measuring process did not answer in time."""


class TooSlow(NotMeasured):
    """A sample would take unreasonably long; nothing is wrong."""


class ProcessFactory:
    """The zygote of one peer."""

    def __init__(self, name: str, spec: str, folder: Path) -> None:
        """Start it and wait until the peer is loaded; its temporary files go to ``folder``.

        Raises:
            CannotWork: it could not be started, or did not answer.
            NotMeasured: the peer cannot be loaded.
        """
        self.name = name
        ours, theirs = multiprocessing.Pipe()
        self._channel = ours
        environment = {k: v for k, v in os.environ.items() if k not in _DISTURBING}
        environment |= _SINGLE_THREADED | {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(folder),
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "killpoint.bench.zygote", str(theirs.fileno()), spec],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=2,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotWork(f"cannot start a process for {name}: {error}") from error
        finally:
            theirs.close()
        try:
            word, text = self._answer(_START_WITHIN)
        except CannotWork:
            self.close()
            raise
        if word == "error":
            self.close()
            raise NotMeasured(text)
        self.version: str = text

    def fork(self, role: str) -> FactoryProcess:
        """A fresh process of one thread."""
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            self._channel.send(("fork", 0))
            send_handle(self._channel, theirs.fileno(), self._process.pid)
            return FactoryProcess(self, role, self._answer(_ANSWER_WITHIN), ours)

    def reap(self, pid: int) -> int | None:
        """The status of a process that has ended; None while it runs."""
        self._channel.send(("reap", pid))
        return self._answer(_ANSWER_WITHIN)

    def close(self) -> None:
        """End the zygote."""
        self._channel.close()
        try:
            self._process.wait(_ANSWER_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self, within: float) -> Any:
        try:
            if self._channel.poll(within):
                return self._channel.recv()
        except (EOFError, OSError) as error:
            raise CannotWork(f"{self.name}: the process that forks others has ended") from error
        raise CannotWork(f"{self.name}: the process that forks others did not answer")


class FactoryProcess:
    """One measuring process, as the runner sees it."""

    def __init__(self, factory: ProcessFactory, role: str, pid: int, channel: Connection) -> None:
        self.role, self.pid = role, pid
        self._factory, self._channel = factory, channel
        self._pidfd = os.pidfd_open(pid)
        self._order = "nothing"

    def order(self, name: str, *arguments: Any) -> None:
        """Send an order to the process; ``answer`` or ``armed`` follows."""
        self._order = name
        try:
            self._channel.send((name, arguments))
        except OSError as error:
            raise NotMeasured(self._ended()) from error

    def armed(self, within: float) -> None:
        """Wait until the process is about to enter the loop that it was ordered to run."""
        word, text = self._hear(within)
        if word != "armed":
            raise NotMeasured(f"{self.role}: {text}")

    def answer(self, within: float) -> Any:
        """Return the result of the order.

        Raises:
            NotMeasured: the order failed, or the process has ended.
            Stuck: no answer came in that time.
        """
        word, value = self._hear(within)
        if word != "ok":
            raise NotMeasured(f"{self.role}, asked to {self._order}: {value}")
        self._order = "nothing"
        return value

    def do(self, within: float, name: str, *arguments: Any) -> Any:
        """Order and answer in one."""
        self.order(name, *arguments)
        return self.answer(within)

    def is_silent(self, seconds: float) -> bool:
        """Let that time pass; False as soon as it has said something."""
        return not self._channel.poll(seconds)

    def leave(self) -> None:
        """Order the process to close its ends and exit."""
        with contextlib.suppress(OSError):
            self._channel.send(("leave", ()))

    def has_ended(self, within: float) -> bool:
        """Return whether the process ends by itself within that time (s); it stays unreaped."""
        return bool(select.select([self._pidfd], [], [], max(0.0, within))[0])

    def end(self) -> str | None:
        """Make sure that it is gone and reaped; what had to be done by force, else None."""
        forced = None
        if not self.has_ended(_END_WITHIN):
            forced = f"{self.role} (pid {self.pid}) had to be killed; it was in {self.where()}"
            self.kill()
        deadline = time.monotonic() + _END_WITHIN
        while self._factory.reap(self.pid) is None and time.monotonic() < deadline:
            self.has_ended(0.05)
        self._channel.close()
        os.close(self._pidfd)
        return forced

    def kill(self) -> None:
        """End it now, and remove the shared memory that it alone could have removed."""
        segments = mapped_segments(self.pid)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self.has_ended(_END_WITHIN)
        for name in segments:
            Path("/dev/shm", name).unlink(missing_ok=True)

    def where(self) -> str:
        """Return the innermost calls of the process, innermost first."""
        return " < ".join(stack(self.pid)[:3])

    def _hear(self, within: float) -> tuple[str, Any]:
        try:
            if not self._channel.poll(within):
                raise Stuck(
                    f"{self.role} (pid {self.pid}), asked to {self._order}, did not answer "
                    f"within {within:g} s; it is in {self.where()}"
                )
            return self._channel.recv()
        except (EOFError, OSError) as error:
            raise NotMeasured(self._ended()) from error

    def _ended(self) -> str:
        return f"{self.role} (pid {self.pid}), asked to {self._order}, has ended"
