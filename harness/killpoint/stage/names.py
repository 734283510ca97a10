"""Names of shared-memory segments and semaphores that a role makes or removes, journalled."""

from __future__ import annotations

import os
import sys
from typing import Any

from killpoint.history.log import Log

_SHM = "/dev/shm/"


def journal_names(log: Log) -> None:
    """Log each creation and removal of a POSIX shared-memory name in this process and its forks.

    Plain ``open`` and ``unlink`` under /dev/shm are seen by an audit hook;
    :mod:`multiprocessing.shared_memory` calls ``shm_open`` and ``shm_unlink`` without an audit
    event, so its two functions are wrapped.
    """
    import _posixshmem  # pyright: ignore[reportMissingImports] # no stub for this private module

    shm: Any = _posixshmem
    shm_open, shm_unlink = shm.shm_open, shm.shm_unlink

    def opened(name: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            log.write("segment", act="create", name=name.lstrip("/"), pid=os.getpid())
        return shm_open(name, flags, mode=mode)

    def unlinked(name: str) -> None:
        shm_unlink(name)
        log.write("segment", act="unlink", name=name.lstrip("/"), pid=os.getpid())

    shm.shm_open, shm.shm_unlink = opened, unlinked

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str) and args[0].startswith(_SHM):
            if isinstance(args[2], int) and args[2] & os.O_CREAT:
                log.write("segment", act="create", name=args[0][len(_SHM) :], pid=os.getpid())
        elif event in ("os.remove", "os.unlink") and str(args[0]).startswith(_SHM):
            log.write("segment", act="unlink", name=str(args[0])[len(_SHM) :], pid=os.getpid())

    sys.addaudithook(hook)
