"""A process that has an engine imported and forks servers: a start costs a second, not a minute.

    PYTHON zygote.py SOCKET ENGINE.py

It runs in the engine's own environment, so it needs nothing but the standard library. ``ENGINE.py``
defines ``preload()``, which imports the engine, and ``serve()``, which runs its command line from
``sys.argv``. Once all is imported, and no thread was started and no GPU touched by that, it listens
at the socket. It ends with the process that started it.

A connection is one play, and its other end owns the play. The zygote forks a *launcher* for it,
which speaks as :mod:`killpoint.systems.server.processes.launcher` does, in lines of JSON: first
``{"ready": PID, "shm": WHY}`` (it is a subreaper and has mounts of its own, with a private
/dev/shm unless ``WHY`` says why not); for each order ``{"argv", "env", "cwd", "log", "umask"}``
(null: as ours is) a server, forked from it into a session of its own, ``{"started": PID}``; for
each child that ends ``{"ended", "status"}``.
When the connection is closed the launcher kills all that is below it, and exits.

``argv`` begins with the interpreter and the script, which are not run again: both are here already.
The environment of a play is its own, except for what the engine read during its import: that is the
zygote's.
"""

import contextlib
import ctypes
import gc
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

_SUBREAPER, _NAME = 36, 15
_NEW_MOUNTS = 0x20000
_RECURSIVE, _PRIVATE, _NO_SUID_NO_DEVICES = 1 << 14, 1 << 18, 2 | 4
_SHM_BYTES = 4 << 30
_ROUNDS = 64
"""Rounds of killing, since a process below a launcher may fork before it is killed."""
_DEFAULT = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
"""Signals that the launcher changed. SIGPIPE is ignored, as in every Python process."""


def main() -> None:
    """Import the engine, then fork a launcher for each connection."""
    path, engine = Path(sys.argv[1]), _load(Path(sys.argv[2]))
    parent = os.pidfd_open(os.getppid())
    del sys.path[0]  # the folder of this file: its names are not for the engine
    _title("killpoint: zygote")
    engine.preload()
    _refuse_what_does_not_fork()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's: from here on its driver ends it
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{path}.unready")
    server.listen(8)
    Path(f"{path}.unready").rename(path)  # a process that sees the path can connect
    connection = _accept(server, parent, path)
    order = _launch(connection)
    _enter(order)
    engine.serve()


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("killpoint_engine", path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _refuse_what_does_not_fork() -> None:
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        sys.exit(f"the engine's import started {threads - 1} threads: it cannot be forked safely")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        sys.exit("the engine's import initialised CUDA: it cannot be forked")


def _title(text: str) -> None:
    """Set the title in lists of processes; the first call finds the memory that titles take."""
    with contextlib.suppress(ImportError):
        importlib.import_module("setproctitle").setproctitle(
            f"killpoint: {text}" if ":" not in text else text
        )


# The zygote itself


def _accept(server: socket.socket, parent: int, path: Path) -> socket.socket:
    """Fork for each connection; return in the child, with its connection."""
    woken = _wake_up_on_child()
    while True:
        ready, _, _ = select.select([server, woken, parent], [], [])
        if woken in ready:
            _drained(woken)
            while _ended_child() is not None:
                pass
        if parent in ready:
            path.unlink(missing_ok=True)
            sys.exit(0)
        if server in ready:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                os.close(parent)
                return connection
            connection.close()


def _wake_up_on_child() -> int:
    """Return a descriptor that becomes readable whenever a child has ended."""
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake)
    return woken


def _drained(woken: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(woken, 4096)


def _ended_child() -> "tuple[int, int] | None":
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


# The launcher of one play


def _launch(connection: socket.socket) -> "dict[str, Any]":
    """Obey orders until the connection ends; return in each server, with its order."""
    _title("killpoint: launcher")
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.setsid()
    woken = _wake_up_on_child()
    _tell(connection, ready=os.getpid(), shm=_own_shm())
    rest = b""
    while True:
        ready, _, _ = select.select([connection, woken], [], [])
        if woken in ready:
            _drained(woken)
            while (ended := _ended_child()) is not None:
                _tell(connection, ended=ended[0], status=ended[1])
        if connection in ready:
            data = _received(connection)
            if not data:
                _end_all()
                os._exit(0)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                pid = os.fork()
                if pid == 0:
                    return json.loads(line)
                _tell(connection, started=pid)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except OSError:
        return b""


def _tell(connection: socket.socket, **what: object) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(what).encode() + b"\n")


def _own_shm() -> str:
    """Mount a /dev/shm of our own; return the reason if that failed, else an empty text."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(function: Any, *arguments: Any) -> None:
        if function(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    try:
        call(libc.unshare, _NEW_MOUNTS)
        call(libc.mount, b"none", b"/", None, _RECURSIVE | _PRIVATE, None)
        options = f"size={_SHM_BYTES},mode=1777".encode()
        call(libc.mount, b"tmpfs", b"/dev/shm", b"tmpfs", _NO_SUID_NO_DEVICES, options)
    except OSError as error:
        return str(error)
    return ""


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


# The server


def _enter(order: "dict[str, Any]") -> None:
    """Set up what any program starts with: signals, descriptors, a session, an environment."""
    signal.set_wakeup_fd(-1)
    for number in _DEFAULT:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    output = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, 256)
    os.chdir(order["cwd"])
    if order.get("umask") is not None:
        os.umask(order["umask"])
    os.environ.clear()
    os.environ.update(order["env"])
    tempfile.tempdir = None
    sys.argv = order["argv"][1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    _title(" ".join(order["argv"]))
    name = Path(order["argv"][0]).name.encode()
    ctypes.CDLL(None).prctl(_NAME, name, 0, 0, 0)


if __name__ == "__main__":
    main()
