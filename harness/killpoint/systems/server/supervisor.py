"""The launcher as the driver of a play sees it: it starts servers, and says how the front ended."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from killpoint.errors import CannotWork

_LAUNCHER = "killpoint.systems.server.launcher"
_ANSWERS_WITHIN = 30.0
_LEAVES_WITHIN = 20.0
_SCRUBBED = ("PYTHONFAULTHANDLER", "PYTHONDEVMODE")


class Supervisor:
    """A launcher process, and what it has said. Use as a context manager."""

    def __init__(self) -> None:
        """Start it.

        Raises:
            CannotWork: it does not answer.
        """
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
        self._rest = b""
        self._ends: dict[int, int] = {}
        self._said: dict[str, Any] = {}
        try:
            self.pid = int(self._await("ready"))
        except BaseException:
            self.close()
            raise
        self.shared_shm = str(self._said["shm"])
        """Why the /dev/shm of its servers is the machine's own; empty: it is not."""

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def shm(self) -> Path:
        """Where its servers' /dev/shm is seen from here."""
        return Path(f"/proc/{self.pid}/root/dev/shm")

    def start(self, argv: list[str], variables: dict[str, str], folder: Path, log: Path) -> int:
        """Start a server; the pid of its front.

        Raises:
            CannotWork: the launcher is gone.
        """
        given = {key: value for key, value in os.environ.items() if key not in _SCRUBBED}
        given |= {key: value for key, value in variables.items() if value}
        env = {key: value for key, value in given.items() if variables.get(key, "x")}
        order = {"argv": argv, "env": env, "cwd": str(folder), "log": str(log)}
        self._in.write(json.dumps(order).encode() + b"\n")
        self._in.flush()
        return int(self._await("started"))

    def status_of(self, pid: int) -> int | None:
        """How a child of the launcher ended, as waitpid has it; None: it has not."""
        self._read()
        return self._ends.get(pid)

    def close(self) -> None:
        """End every process below it, and it."""
        with contextlib.suppress(BrokenPipeError):
            self._in.close()
        try:
            self._process.wait(_LEAVES_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._out.close()

    def _await(self, word: str) -> Any:
        end = time.monotonic() + _ANSWERS_WITHIN
        while word not in self._said:
            self._read()
            if self._process.poll() is not None or time.monotonic() > end:
                raise CannotWork(f"the launcher of servers did not say {word!r}")
            if word not in self._said:
                time.sleep(0.01)
        return self._said.pop(word)

    def _read(self) -> None:
        while data := _read_some(self._out.fileno()):
            self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "ended" in said:
                self._ends[said["ended"]] = said["status"]
            else:
                self._said |= said


def _read_some(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return b""
