"""The runner's side of a zygote: it starts it, requests processes, and receives their ends.

A :class:`Zygote` is a process of its own start, or a copy that a :class:`ZygoteSource` has forked.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from killpoint.errors import BadUsage, CannotWork
from killpoint.runner.protocol import (
    Channel,
    Closed,
    Exited,
    Forked,
    ForkRole,
    ForkZygote,
    Loaded,
)

_SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_START_WITHIN = 120.0
_ENDS_WITHIN = 10.0
_ZYGOTE = "killpoint.runner.processes.zygote"


class Zygote:
    """Process that has the target imported and forks roles."""

    def __init__(
        self, spec: str, root: Path, preloads: Sequence[str] = (), *, of: Zygote | None = None
    ) -> None:
        """Start it and wait until the target is loaded.

        It removes ``root``, the folder of the plays, if its runner dies.
        ``preloads``: modules that roles are to find imported, beside those of the target.
        ``of``: zygote of the same target that forks it, and ends after it; None: an interpreter is
        started.

        Raises:
            BadUsage: the target cannot be imported here.
            CannotWork: the process could not be started, or did not answer.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel = Channel(ours)
        self._early: list[Exited] = []
        self._copies: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            if of is None:
                self._process = _started(spec, root, preloads, theirs.fileno())
                self.pid = self._process.pid
            else:
                self.pid = of.fork(ForkZygote(str(root), list(preloads)), theirs.fileno())
                of._copies.add(self.pid)
            self._pidfd = _pidfd(self.pid)
        except OSError as error:
            self.channel.close()
            raise CannotWork(f"cannot start a process for target {spec}: {error}") from error
        finally:
            theirs.close()
        try:
            self.loaded = self._answer(spec)
        except BaseException:  # a Ctrl-C, too, or the timeout of a test that waits for it
            self.close()
            raise

    def _answer(self, spec: str) -> Loaded:
        """Return its report once the target is loaded."""
        self.channel.sock.settimeout(_START_WITHIN)
        try:
            loaded = self.channel.get()
        except (Closed, TimeoutError) as error:
            raise CannotWork(f"target {spec}: its process ended or hung while loading") from error
        self.channel.sock.settimeout(None)
        assert isinstance(loaded, Loaded)
        if loaded.error:
            kind = BadUsage if loaded.missing else CannotWork
            raise kind(f"target {spec}: {loaded.error}")
        return loaded

    def fork(self, order: ForkRole | ForkZygote, *fds: int) -> int:
        """Fork a process for a role; return its pid (its launcher's, for other start methods).

        ``fds``: the channel's end for another zygote.

        Raises:
            CannotWork: the zygote is gone.
        """
        try:
            self.channel.put(order, *fds)
            packet = self.channel.get()
            while not isinstance(packet, Forked):
                if isinstance(packet, Exited):
                    self._early.append(packet)
                packet = self.channel.get()
        except Closed as error:
            raise CannotWork(f"the zygote (pid {self.pid}) has died") from error
        return packet.pid

    def exits(self) -> list[Exited]:
        """Return the ends that were received during other waits."""
        early, self._early = self._early, []
        return early

    def descendants(self) -> list[int]:
        """Return the pids of every process below the zygote, but for its copies and theirs."""
        found: list[int] = []
        todo = [self.pid]
        while todo:
            pid = todo.pop()
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    pids = map(int, (task / "children").read_text().split())
                    kids = [pid for pid in pids if pid not in self._copies]
                    found += kids
                    todo += kids
        return found

    def pause(self, seconds: float) -> None:
        """Wait a little for its children's ends, and record them."""
        if select.select([self.channel], [], [], seconds)[0]:
            try:
                packet = self.channel.take()
            except Closed as error:
                raise CannotWork(f"the zygote (pid {self.pid}) has died") from error
            if isinstance(packet, Exited):
                self._early.append(packet)

    def close(self) -> None:
        """End it and, with it, every process that it started."""
        self.channel.close()
        if self._pidfd < 0:
            return
        if not self._ends_within(_ENDS_WITHIN):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            self._ends_within(_ENDS_WITHIN)
        os.close(self._pidfd)
        self._pidfd = -1
        if self._process is not None:
            self._process.wait()

    def _ends_within(self, seconds: float) -> bool:
        return bool(select.select([self._pidfd], [], [], seconds)[0])


def _pidfd(pid: int) -> int:
    """Return a descriptor of a process; -1: it has ended, and its answer says why."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1


def environment() -> dict[str, str]:
    """Return the environment of a zygote: it imports what this process does, in one thread."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONFAULTHANDLER", "PYTHONDEVMODE")
    }
    return kept | _SINGLE_THREADED | {"PYTHONPATH": os.pathsep.join(sys.path)}


def _started(spec: str, root: Path, preloads: Sequence[str], fd: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", _ZYGOTE, str(fd), spec, str(root), *preloads],
        pass_fds=[fd],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=2,
        start_new_session=True,  # a Ctrl-C is for the runner, not for roles under test
    )


class ZygoteSource:
    """Zygote without roles, of which those of stages side by side are copies.

    The target is imported once for all of them, and torch once for those whose roles find it
    imported. Its methods may be called from any thread. Copies are closed before it.
    """

    def __init__(self, spec: str) -> None:
        """Start it.

        Raises:
            BadUsage, CannotWork: see :class:`Zygote`.
        """
        self._spec = spec
        self._lock = threading.Lock()
        self._with: dict[tuple[str, ...], Zygote] = {}
        self._root = Path(tempfile.mkdtemp(prefix="kp-", dir="/tmp"))
        try:
            self._first = Zygote(spec, self._root)
        except BaseException:
            shutil.rmtree(self._root, ignore_errors=True)
            raise

    def copy(self, root: Path, preloads: Sequence[str] = ()) -> Zygote:
        """Return a zygote for plays under ``root``, with these modules imported, too.

        Raises:
            CannotWork: see :class:`Zygote`.
        """
        with self._lock:
            source = self._first
            if preloads:
                key = tuple(preloads)
                if key not in self._with:
                    self._with[key] = Zygote(self._spec, self._root, preloads, of=self._first)
                source = self._with[key]
            return Zygote(self._spec, root, of=source)

    def close(self) -> None:
        """End it, after its copies."""
        for zygote in (*self._with.values(), self._first):
            zygote.close()
        shutil.rmtree(self._root, ignore_errors=True)
