"""Journal of the names of shared-memory segments and semaphores that a role makes or removes."""

from __future__ import annotations

import os
import stat
import sys
from typing import Any

from killpoint.history.log import Log

_SHM = "/dev/shm/"


def journal_names(log: Log) -> None:
    """Log each creation and removal of a POSIX shared-memory name in this process and its forks.

    An audit hook sees plain ``open`` and ``unlink`` under /dev/shm;
    :mod:`multiprocessing.shared_memory` calls ``shm_open`` and ``shm_unlink`` without an audit
    event, so its two functions are wrapped. A segment's rights at its creation can be read only
    off its descriptor: :func:`os.open` is wrapped for that.
    """
    import _posixshmem  # pyright: ignore[reportMissingImports] # no stub for this private module

    shm: Any = _posixshmem
    shm_open, shm_unlink = shm.shm_open, shm.shm_unlink

    def opened(name: str, flags: int, mode: int = 0o777) -> int:
        if not flags & os.O_CREAT:
            return shm_open(name, flags, mode=mode)
        log.write("segment", act="create", name=name.lstrip("/"), pid=os.getpid())
        fd = shm_open(name, flags, mode=mode)
        _journal_rights(log, name.lstrip("/"), fd)
        return fd

    def unlinked(name: str) -> None:
        shm_unlink(name)
        log.write("segment", act="unlink", name=name.lstrip("/"), pid=os.getpid())

    shm.shm_open, shm.shm_unlink = opened, unlinked
    os_open = os.open

    def plainly_opened(path: Any, flags: int, *args: Any, **more: Any) -> int:
        fd = os_open(path, flags, *args, **more)
        if flags & os.O_CREAT and str(path).startswith(_SHM):
            _journal_rights(log, str(path)[len(_SHM) :], fd)
        return fd

    os.open = plainly_opened

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str) and args[0].startswith(_SHM):
            if isinstance(args[2], int) and args[2] & os.O_CREAT:
                log.write("segment", act="create", name=args[0][len(_SHM) :], pid=os.getpid())
        elif event in ("os.remove", "os.unlink") and str(args[0]).startswith(_SHM):
            log.write("segment", act="unlink", name=str(args[0])[len(_SHM) :], pid=os.getpid())

    sys.addaudithook(hook)


def journal_names_once(log: Log) -> None:
    """Do the same, unless a process that this one was forked from does it already."""
    if getattr(os.open, "__module__", "") != __name__:
        journal_names(log)


def _journal_rights(log: Log, name: str, fd: int) -> None:
    """Log a segment's rights as of its creation, before its maker can change them."""
    found = os.fstat(fd)
    mode = stat.S_IMODE(found.st_mode)
    log.write("segment-made", name=name, mode=mode, owner=found.st_uid, pid=os.getpid())
