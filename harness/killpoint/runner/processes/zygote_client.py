"""The runner's side of a zygote: it starts it, requests processes, and receives their ends."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from killpoint.errors import BadUsage, CannotWork
from killpoint.runner.protocol import Channel, Closed, Exited, Forked, ForkRole, Loaded

_SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_START_WITHIN = 120.0
_ZYGOTE = "killpoint.runner.processes.zygote"


class Zygote:
    """Process that has the target imported and forks roles."""

    def __init__(self, spec: str, root: Path, preloads: Sequence[str] = ()) -> None:
        """Start it and wait until the target is loaded.

        It removes ``root``, the folder of the plays, if its runner dies.
        ``preloads``: modules that roles are to find imported, beside those of the target.

        Raises:
            BadUsage: the target cannot be imported here.
            CannotWork: the process could not be started, or did not answer.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel = Channel(ours)
        self._early: list[Exited] = []
        environment = {
            key: value
            for key, value in os.environ.items()
            if key not in ("PYTHONFAULTHANDLER", "PYTHONDEVMODE")
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _ZYGOTE, str(theirs.fileno()), spec, str(root), *preloads],
                pass_fds=[theirs.fileno()],
                env=environment | _SINGLE_THREADED | {"PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                stdout=2,
                start_new_session=True,  # a Ctrl-C is for the runner, not for roles under test
            )
        except OSError as error:
            raise CannotWork(f"cannot start a process for target {spec}: {error}") from error
        finally:
            theirs.close()
        self.pid = self._process.pid
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

    def fork(self, order: ForkRole) -> int:
        """Fork a process for a role; return its pid (its launcher's, for other start methods).

        Raises:
            CannotWork: the zygote is gone.
        """
        try:
            self.channel.put(order)
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
        """Return the pids of every process below the zygote."""
        found: list[int] = []
        todo = [self.pid]
        while todo:
            pid = todo.pop()
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    kids = [int(kid) for kid in (task / "children").read_text().split()]
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
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
