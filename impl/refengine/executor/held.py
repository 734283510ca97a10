"""Descriptors that no other process may hold a copy of (SPEC W9).

As long as anybody has a copy of a pipe's writing end, its reader does not hear that the writer
died. New programs do not inherit ours; a fork does, and puts something harmless in their places
at once: the numbers stay taken, since inherited objects may still close them.
"""

import contextlib
import os
import stat
import weakref
from collections.abc import Collection
from pathlib import Path
from typing import Protocol


class HasFileno(Protocol):
    """A socket, a `Connection`, or an `End`."""

    def fileno(self) -> int:
        """Once closed it is negative, or raises OSError."""
        ...


class End:
    """One end of a pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Its number; -1 once closed."""
        return self._fd

    def close(self) -> None:
        """Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


_held: "weakref.WeakSet[HasFileno]" = weakref.WeakSet()


def hold(thing: HasFileno) -> None:
    """This process's alone from now on."""
    _held.add(thing)


def let_go(keep: Collection[int]) -> None:
    """In a forked process: every socket, pipe and the like but these, and the standard three."""
    found = [int(p.name) for p in Path("/proc/self/fd").iterdir()]
    _blank([fd for fd in found if fd > 2 and fd not in keep and _is_an_end(fd)])


def _is_an_end(fd: int) -> bool:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    # An eventfd, epoll or pidfd has no type at all.
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode) or not stat.S_IFMT(mode)


def _blank(fds: list[int]) -> None:
    if fds:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in fds:
            if fd != nothing:
                os.dup2(nothing, fd, inheritable=False)
        os.close(nothing)


def _after_fork() -> None:
    fds: list[int] = []
    for thing in list(_held):
        with contextlib.suppress(OSError):
            fds.append(thing.fileno())
    _blank([fd for fd in fds if fd >= 0])
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)
