"""Room for descriptors, made sure of before a library that aborts the process without it.

libzmq gives up on the whole process when it cannot open an epoll or accept a local connection.
"""

import errno
import fcntl
import os
import resource


class Reserve:
    """Descriptors held for later; OSError (EMFILE) at once if there is no room for them."""

    def __init__(self, count: int) -> None:
        self._held: list[int] = []
        try:
            for _ in range(count):
                self._held.append(os.eventfd(0, os.EFD_CLOEXEC))
        except OSError:
            self.close()
            raise

    def give(self) -> None:
        """Let go of one, for somebody who is about to need it."""
        if self._held:
            os.close(self._held.pop())

    def close(self) -> None:
        """Let go of all."""
        while self._held:
            self.give()


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
