"""What multiprocessing's fork server tidies up when its last client is gone (SPEC L1).

The server's socket lies in a temporary folder that the process which started it removes as it
exits. Killed, it cannot. The server outlives it and every worker, so it sees to it: what it is
made to import notes where the socket is, and removes that at the server's own exit.
"""

import atexit
import contextlib
import os
import socket
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

_PREFIX = "listener-"
_AT_EXIT = f"{__package__}.fork_server_exit"


def preload(context: ForkServerContext) -> None:
    """Have the server import this, if it is yet to start; what else it imports stays."""
    server: Any = forkserver
    names: list[str] = server._forkserver._preload_modules
    if _AT_EXIT not in names:
        context.set_forkserver_preload([*names, _AT_EXIT])


def listeners() -> list[Path]:
    """Where this process' listening sockets of multiprocessing's lie."""
    found: list[Path] = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(each.name))) as one:
            name = one.getsockname() if one.family == socket.AF_UNIX else ""
            listens = one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if listens and isinstance(name, str) and Path(name).name.startswith(_PREFIX):
                found.append(Path(name))
    return found


def remove(paths: list[Path], pid: int) -> None:
    """Them, and the folders that are empty then; in that process only."""
    if os.getpid() != pid:
        return
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
        with contextlib.suppress(OSError):  # of others it may hold more
            path.parent.rmdir()


def watch() -> None:
    """At this process' exit, remove what it listens at."""
    atexit.register(remove, listeners(), os.getpid())
