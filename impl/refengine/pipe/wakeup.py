"""Wakes a thread that waits for descriptors."""

import contextlib
import os

from ..base.fds import HeldFds


class Wakeup:
    """An eventfd, readable from the first `wake` until `clear`. Any thread may call `wake`."""

    def __init__(self) -> None:
        self._own = HeldFds()
        self._fd = self._own.open(os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """Return the descriptor, for a poll."""
        return self._fd

    def wake(self) -> None:
        """Wake a thread that waits, or is about to."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        """Make it unreadable again; look for news only after this."""
        with contextlib.suppress(OSError):
            os.eventfd_read(self._fd)

    def close(self) -> None:
        """Close the descriptor: `wake` does nothing from now on."""
        self._fd = -1
        self._own.close()
