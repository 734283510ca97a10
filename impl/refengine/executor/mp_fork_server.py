"""Clean-up of multiprocessing's fork server when its last client is gone (SPEC L1).

The server's socket lies in a temporary folder, which the process that started the server removes
as it exits; killed, it cannot. The server outlives that process and every worker, so it is made to
import a module that notes where the socket is, and removes it at the server's own exit.
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
_AT_EXIT = f"{__package__}.mp_fork_server_exit"


def preload(context: ForkServerContext) -> None:
    """Have a server that is yet to start import the clean-up, besides what else it imports."""
    server: Any = forkserver
    names: list[str] = server._forkserver._preload_modules
    if _AT_EXIT not in names:
        context.set_forkserver_preload([*names, _AT_EXIT])


def listeners() -> list[Path]:
    """Return the paths of this process's listening sockets of multiprocessing."""
    found: list[Path] = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # it may just be closed
            if not each.is_socket():
                continue
            with socket.socket(fileno=os.dup(int(each.name))) as one:
                name = one.getsockname() if one.family == socket.AF_UNIX else ""
                listens = one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if listens and isinstance(name, str) and Path(name).name.startswith(_PREFIX):
                found.append(Path(name))
    return found


def remove(paths: list[Path], pid: int) -> None:
    """Remove them, and the folders that are empty then; in the process `pid` only."""
    if os.getpid() != pid:
        return
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
        with contextlib.suppress(OSError):  # of others it may hold more
            path.parent.rmdir()


def remove_at_exit() -> None:
    """Have the sockets at which this process listens removed at its exit."""
    atexit.register(remove, listeners(), os.getpid())
