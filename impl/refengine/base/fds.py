"""File descriptors: held until closed, reserved, and kept from forked processes (SPEC W9).

libzmq ends the whole process when it cannot open an epoll or accept a local connection, so room is
made sure of first (`ensure_fds_available`, `FdReserve`).

As long as any process has a copy of a pipe's writing end, its reader does not notice that the
writer died. New programs do not inherit these descriptors; a fork does, and replaces them by
/dev/null at once: the numbers stay taken, since inherited objects may still close them.
"""

import contextlib
import errno
import fcntl
import os
import resource
import stat
import weakref
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from .cleanup import append_atomically


class HeldFds:
    """Descriptors, each registered in the bytecode that opens it, and closed with this object."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def open(self, call: Callable[..., int], *args: object) -> int:
        """Return the descriptor that `call` opens."""
        append_atomically(self._held, call, *args)
        return self._held[-1]

    def close_all_but(self, count: int) -> None:
        """Close descriptors, the last ones first, until `count` are left."""
        while len(self._held) > count:
            os.close(self._held.pop())

    def close(self) -> None:
        """Close all."""
        self.close_all_but(0)

    def __del__(self) -> None:
        self.close()


class FdReserve(HeldFds):
    """Descriptors held for later; OSError (EMFILE) at once if there is no room for them.

    `close_all_but` frees some, for a call that is about to need them.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        try:
            for _ in range(count):
                self.open(os.eventfd, 0, os.EFD_CLOEXEC)
        except OSError:
            self.close()
            raise


def ensure_fds_available(count: int) -> None:
    """Raise OSError (EMFILE) unless so many more can be opened.

    No descriptor is opened for it: another thread may be about to use the last ones.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    left, fd = count, 0
    while left > 0:
        if fd >= limit:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        try:
            fcntl.fcntl(fd, fcntl.F_GETFD)
        except OSError:
            left -= 1
        fd += 1


class HasFileno(Protocol):
    """A socket, a `Connection`, or an `Fd`."""

    def fileno(self) -> int:
        """Return the descriptor; once closed return a negative number, or raise OSError."""
        ...


class Fd:
    """A descriptor that closes with the object."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Return the number; -1 once closed."""
        return self._fd

    def close(self) -> None:
        """Close the descriptor; idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


_owned: "weakref.WeakSet[HasFileno]" = weakref.WeakSet()


def own(thing: HasFileno) -> None:
    """Have every later fork replace this descriptor by /dev/null."""
    _owned.add(thing)


def close_inherited(keep: Collection[int]) -> None:
    """Replace, in a forked process, every socket, pipe and the like but `keep` and descriptors 0-2.

    /dev/null takes the places of their descriptors.
    """
    found = [int(p.name) for p in Path("/proc/self/fd").iterdir()]
    _replace_with_null([fd for fd in found if fd > 2 and fd not in keep and _is_endpoint(fd)])


def _is_endpoint(fd: int) -> bool:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    # An eventfd, epoll or pidfd has no type at all.
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode) or not stat.S_IFMT(mode)


def _replace_with_null(fds: list[int]) -> None:
    if fds:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in fds:
            if fd != nothing:
                os.dup2(nothing, fd, inheritable=False)
        os.close(nothing)


def _after_fork() -> None:
    fds: list[int] = []
    for thing in list(_owned):
        with contextlib.suppress(OSError):
            fds.append(thing.fileno())
    _replace_with_null([fd for fd in fds if fd >= 0])
    _owned.clear()


os.register_at_fork(after_in_child=_after_fork)
