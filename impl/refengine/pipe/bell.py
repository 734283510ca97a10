"""Wakes a thread that waits for descriptors."""

import contextlib
import os

from ..base.fds import HeldFds


class Bell:
    """Readable from the first ring until it is quieted. Any thread may ring, at any time."""

    def __init__(self) -> None:
        self._own = HeldFds()
        self._fd = self._own.open(os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """For a poll."""
        return self._fd

    def ring(self) -> None:
        """Wake whoever waits, or is about to."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.eventfd_write(self._fd, 1)

    def quiet(self) -> None:
        """Forget what was rung; look for what it meant only after this."""
        with contextlib.suppress(OSError):
            os.eventfd_read(self._fd)

    def close(self) -> None:
        """Ringing does nothing from now on."""
        self._fd = -1
        self._own.close()
