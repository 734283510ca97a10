"""Room for descriptors, made sure of before a library that aborts the process without it.

libzmq gives up on the whole process when it cannot open an epoll or accept a local connection.
"""

import errno
import fcntl
import os
import resource
from collections.abc import Callable

from .keeping import keep


class Descriptors:
    """Descriptors of ours: each is kept as it is opened, and closed at the latest with this."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def open(self, call: Callable[..., int], *args: object) -> int:
        """The descriptor that this call opens."""
        keep(self._held, call, *args)
        return self._held[-1]

    def leave(self, count: int) -> None:
        """Close all but so many."""
        while len(self._held) > count:
            os.close(self._held.pop())

    def close(self) -> None:
        """Close all."""
        self.leave(0)

    def __del__(self) -> None:
        self.close()


class Reserve(Descriptors):
    """Descriptors held for later; OSError (EMFILE) at once if there is no room for them.

    `leave` lets go of some, for somebody who is about to need them.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        try:
            for _ in range(count):
                self.open(os.eventfd, 0, os.EFD_CLOEXEC)
        except OSError:
            self.close()
            raise


def need(count: int) -> None:
    """Raise OSError (EMFILE) unless so many more can be opened.

    Looks without opening any: another thread may be about to use the last ones.
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
