"""Forked roles for tests: run a function in a child, hear what it says, never wait for ever."""

import fcntl
import os
import pickle
import reprlib
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEADLINE = 15.0
_HEAD = struct.Struct(">I")


class Role:
    """A forked child running `work(say, *args)`; what it says arrives as a list."""

    def __init__(self, work: Callable[..., Any], *args: Any) -> None:
        self._out, into = os.pipe()
        fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 1 << 20)  # what is said must not block the sayer
        self._bytes = bytearray()
        self.said: list[Any] = []
        self.status: int | None = None
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._out)
            _run(into, work, args)
        os.close(into)
        self.pidfd = os.pidfd_open(self.pid)

    def hear(self, seconds: float = DEADLINE) -> Any:
        """The next thing the child says; fails at its end or the deadline."""
        end = time.monotonic() + seconds
        while (thing := self._parse()) is None:
            ready, _, _ = select.select([self._out], [], [], max(0, end - time.monotonic()))
            data = os.read(self._out, 1 << 16) if ready else b""
            if not data:
                how = "" if ready else "(hang)"
                raise AssertionError(f"the role said only {reprlib.repr(self.said)} {how}")
            self._bytes += data
        self.said.append(thing[0])
        return thing[0]

    def finish(self, seconds: float = DEADLINE) -> list[Any]:
        """Everything said until the child ended; fails if it does not end."""
        end = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self._out], [], [], max(0, end - time.monotonic()))
            if not ready:
                self.kill()
                raise AssertionError(f"a role hangs; it said {reprlib.repr(self.said)}")
            data = os.read(self._out, 1 << 16)
            self._bytes += data
            while (thing := self._parse()) is not None:
                self.said.append(thing[0])
            if not data:
                break
        self.wait(max(0.1, end - time.monotonic()))
        return self.said

    def wait(self, seconds: float = DEADLINE) -> int:
        """The wait status, once it ended."""
        if self.status is None:
            ready, _, _ = select.select([self.pidfd], [], [], seconds)
            assert ready, f"role {self.pid} did not end in {seconds} s"
            self.status = os.waitpid(self.pid, 0)[1]
            os.close(self.pidfd)
            os.close(self._out)
        return self.status

    def kill(self, sig: int = signal.SIGKILL) -> None:
        """Kill it and wait until it is gone."""
        if self.status is None:
            os.kill(self.pid, sig)
            self.wait()

    def stop(self) -> None:
        """SIGSTOP it, and wait until it stands."""
        os.kill(self.pid, signal.SIGSTOP)
        until(
            lambda: Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
        )

    def _parse(self) -> tuple[Any] | None:
        if len(self._bytes) < 4:
            return None
        (size,) = _HEAD.unpack_from(self._bytes)
        if len(self._bytes) < 4 + size:
            return None
        thing = pickle.loads(self._bytes[4 : 4 + size])
        del self._bytes[: 4 + size]
        return (thing,)

    def __enter__(self) -> "Role":
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()


def _run(into: int, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    def say(thing: Any) -> None:
        data = pickle.dumps(thing)
        os.write(into, _HEAD.pack(len(data)) + data)

    code = 1
    try:
        work(say, *args)
        code = 0
    except BaseException as error:
        say(("failed", repr(error), traceback.format_exc()))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def until(condition: Callable[[], Any], seconds: float = DEADLINE) -> Any:
    """Look every millisecond until it is true, at most that long."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.001)
    return found


def descriptors(pid: int | str = "self") -> set[str]:
    """The numbers of what a process has open."""
    return {each.name for each in Path(f"/proc/{pid}/fd").iterdir()}


def leftovers(pid: int) -> list[str]:
    """Our names of that process in /dev/shm and the temporary directories."""
    folders = {"/dev/shm", "/tmp", os.environ.get("TMPDIR", "/tmp")}
    return [
        str(path)
        for folder in folders
        for path in Path(folder).glob("refengine-*")
        if path.name.split("-")[2] == str(pid)
    ]
