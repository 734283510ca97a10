"""The driver's end of the launcher: starts servers, and reports how the front ended.

The launcher is a process of its own (:mod:`.launcher`), or a fork of a zygote with the engine
imported, which speaks the same lines of JSON: then a start costs a second or two.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from killpoint.errors import CannotWork
from killpoint.runner.observe.diagnosis import last_line
from killpoint.systems.server.program import Zygote

_LAUNCHER = "killpoint.systems.server.processes.launcher"
_ANSWERS_WITHIN = 60.0
_LEAVES_WITHIN = 30.0
_LOOKS = 0.01
_SCRUBBED = ("PYTHONFAULTHANDLER", "PYTHONDEVMODE")


class LauncherLink(Protocol):
    """Connection to a launcher."""

    def send(self, data: bytes) -> None:
        """Send bytes to the launcher."""
        ...

    def receive(self) -> bytes:
        """Return what the launcher has sent, without waiting; empty if nothing."""
        ...

    def close(self) -> None:
        """Close it: the launcher ends what is below it, and leaves."""
        ...


class OwnProcess:
    """Launcher that is a process of ours."""

    def __init__(self) -> None:
        """Start the launcher."""
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", _LAUNCHER],
            env=os.environ | path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._out.fileno(), False)

    def send(self, data: bytes) -> None:
        """See :class:`LauncherLink`."""
        self._in.write(data)
        self._in.flush()

    def receive(self) -> bytes:
        """See :class:`LauncherLink`."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._out.fileno(), 1 << 16)
        return b""

    def close(self) -> None:
        """See :class:`LauncherLink`."""
        with contextlib.suppress(BrokenPipeError):
            self._in.close()
        try:
            self._process.wait(_LEAVES_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._out.close()


class EngineZygote:
    """Process that has an engine imported, from which launchers are forked."""

    def __init__(self, how: Zygote, folder: Path) -> None:
        """Start the zygote, and wait until it can be connected to.

        Raises:
            CannotWork: it ended, or was not ready in its time.
        """
        self.path, said = folder / "zygote", folder / "zygote.err"
        command = [word.replace("{socket}", str(self.path)) for word in how.command]
        with said.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        end = time.monotonic() + how.ready_within
        while not self.path.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                self.close()
                why = last_line(said)
                raise CannotWork(f"the zygote of the server was not ready to be forked: {why}")
            time.sleep(_LOOKS)

    def close(self) -> None:
        """Kill the zygote."""
        self._process.kill()
        self._process.wait()


class ForkedProcess:
    """Launcher that was forked from a zygote."""

    def __init__(self, zygote: EngineZygote) -> None:
        """Have the zygote fork it."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(zygote.path))

    def send(self, data: bytes) -> None:
        """See :class:`LauncherLink`."""
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """See :class:`LauncherLink`."""
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            return self._socket.recv(1 << 16, socket.MSG_DONTWAIT)
        return b""

    def close(self) -> None:
        """See :class:`LauncherLink`."""
        self._socket.close()


class Supervisor:
    """A launcher, and what it has reported. Use as a context manager."""

    def __init__(self, line: LauncherLink) -> None:
        """Wait until the launcher is ready.

        Raises:
            CannotWork: it does not answer.
        """
        self._line = line
        self._rest = b""
        self._ends: dict[int, int] = {}
        self._said: dict[str, Any] = {}
        self.pid = 0
        try:
            self.pid = int(self._await("ready"))
        except BaseException:
            self.close()
            raise
        self.shared_shm = str(self._said["shm"])
        """Reason why the /dev/shm of its servers is the machine's own; empty: it is not."""

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def shm(self) -> Path:
        """Path by which its servers' /dev/shm is seen from here."""
        return Path(f"/proc/{self.pid}/root/dev/shm")

    def start(
        self,
        argv: list[str],
        variables: dict[str, str],
        folder: Path,
        log: Path,
        umask: int | None = None,
    ) -> int:
        """Start a server; return the pid of its front. ``umask``: None: as ours is.

        Raises:
            CannotWork: the launcher is gone.
        """
        given = {key: value for key, value in os.environ.items() if key not in _SCRUBBED}
        given |= {key: value for key, value in variables.items() if value}
        env = {key: value for key, value in given.items() if variables.get(key, "x")}
        order = {"argv": argv, "env": env, "cwd": str(folder), "log": str(log), "umask": umask}
        self._line.send(json.dumps(order).encode() + b"\n")
        return int(self._await("started"))

    def status_of(self, pid: int) -> int | None:
        """Return a child's wait status, as of waitpid; None: it has not ended."""
        self._read()
        return self._ends.get(pid)

    def close(self) -> None:
        """End the launcher and every process below it; return once it has left."""
        self._line.close()
        end = time.monotonic() + _LEAVES_WITHIN
        while self.pid and Path(f"/proc/{self.pid}").exists() and time.monotonic() < end:
            time.sleep(_LOOKS)

    def _await(self, word: str) -> Any:
        end = time.monotonic() + _ANSWERS_WITHIN
        while word not in self._said:
            self._read()
            if time.monotonic() > end:
                raise CannotWork(f"the launcher of servers did not say {word!r}")
            if word not in self._said:
                time.sleep(_LOOKS)
        return self._said.pop(word)

    def _read(self) -> None:
        while data := self._line.receive():
            self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "ended" in said:
                self._ends[said["ended"]] = said["status"]
            else:
                self._said |= said
