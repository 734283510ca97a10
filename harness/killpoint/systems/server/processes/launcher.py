"""The parent process of a server under test: it starts the server, and no process escapes it.

The launcher is a subreaper, so that what the server leaves behind becomes its own child and stays
below it; its mounts are its own, with a /dev/shm of their own where the machine permits that.
Orders come as lines of JSON on its standard input, events go as such lines to its standard output.
At the end of the input it kills all that is below it, and exits.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from killpoint.runner.network import namespaces
from killpoint.runner.network.namespaces import call, libc

_SUBREAPER = 36
_RECURSIVE, _PRIVATE, _NO_SUID_NO_DEVICES = 1 << 14, 1 << 18, 2 | 4
_SHM_BYTES = 4 << 30
_ROUNDS = 64
"""Rounds of killing, since a process below may fork before it is killed."""
_USUAL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD)


def main() -> None:
    """Obey orders until the input ends."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _tell(ready=os.getpid(), shm=_own_shm())
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, _noted)
    signal.set_wakeup_fd(wake)
    rest = b""
    while True:
        readable, _, _ = select.select([0, woken], [], [])
        if woken in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
        _reap()
        if 0 in readable:
            data = os.read(0, 1 << 16)
            if not data:
                _end_all()
                sys.exit(0)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                _tell(started=_start(json.loads(line)))


def _noted(_number: int, _frame: object) -> None:
    """Do nothing: being called is enough, as the wake-up descriptor has a byte now."""


def _own_shm() -> str:
    """Mount a /dev/shm of our own; return the reason if that failed, else an empty text."""
    try:
        namespaces.enter_new(namespaces.NEW_MOUNTS)
        call(libc.mount, b"none", b"/", None, _RECURSIVE | _PRIVATE, None)
        options = f"size={_SHM_BYTES},mode=1777".encode()
        call(libc.mount, b"tmpfs", b"/dev/shm", b"tmpfs", _NO_SUID_NO_DEVICES, options)
    except OSError as error:
        return str(error)
    return ""


def _start(order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        if order.get("umask") is not None:
            os.umask(order["umask"])
        _become(order["argv"], order["env"], order["cwd"], order["log"])
    return pid


def _become(argv: list[str], env: dict[str, str], cwd: str, log: str) -> NoReturn:
    """Become the server, with the signals and descriptors that any program starts with."""
    try:
        signal.set_wakeup_fd(-1)
        for number in _USUAL:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, 256)
        os.chdir(cwd)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(2, f"cannot be started: {error}\n".encode())
    finally:
        os._exit(127)


def _reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _tell(ended=pid, status=status)


def _end_all() -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    for _ in range(_ROUNDS):
        below = [int(pid) for pid in children.read_text().split()]
        if not below:
            return
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in below:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _tell(**what: object) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main()
