"""Linux namespaces: a process of the harness enters new ones, or another process's."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NEW_MOUNTS, NEW_NETWORK = 0x0002_0000, 0x4000_0000
_NEW_USERS = 0x1000_0000

libc = ctypes.CDLL(None, use_errno=True)


def enter_new(kind: int) -> None:
    """Enter new namespaces of this kind, owned by new users if only those give the right.

    Raises:
        OSError: the machine does not allow it.
    """
    try:
        call(libc.unshare, kind)
    except PermissionError:
        user, group = os.getuid(), os.getgid()
        call(libc.unshare, _NEW_USERS | kind)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def join(theirs: Path, ours: Path) -> None:
    """Enter the namespace at a path in /proc; ``ours`` is the path of the present one."""
    if theirs.readlink() == ours.readlink():
        return
    fd = os.open(theirs, os.O_RDONLY | os.O_CLOEXEC)
    try:
        call(libc.setns, fd, 0)
    finally:
        os.close(fd)


def call(function: ctypes._NamedFuncPointer, *args: bytes | int | None) -> None:  # pyright: ignore[reportPrivateUsage] # its only name
    """Call a function of the C library that returns 0, or sets ``errno``."""
    if function(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), function.__name__)
