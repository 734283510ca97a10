"""A cancel token that wakes a blocked call at once, and a one-shot event made of it."""

import os
import select
from typing import Protocol

from .clock import poll_milliseconds


class EventLike(Protocol):
    """threading.Event, or another object with `is_set`; polled every 50 ms while blocked."""

    def is_set(self) -> bool:
        """Return whether the event was set."""
        ...


class CancelToken:
    """Set from any thread; a call that was given it wakes through its descriptor."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._set = False

    def set(self) -> None:
        """Cancel every call that holds this token, now and later."""
        self._set = True
        os.eventfd_write(self._fd, 1)

    def is_set(self) -> bool:
        """Return whether `set` was called."""
        return self._set

    def fileno(self) -> int:
        """Return the descriptor, which is readable once the token is set."""
        return self._fd

    def __del__(self) -> None:
        fd = getattr(self, "_fd", -1)
        if fd >= 0:
            os.close(fd)


class OneShotEvent(CancelToken):
    """Set from any thread. An exception from outside leaves nothing held by a waiter (SPEC R9)."""

    def wait(self, seconds: float | None) -> bool:
        """Wait at most that long; return whether the event is set."""
        if self.is_set():
            return True
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        poller.poll(None if seconds is None else poll_milliseconds(seconds))
        return self.is_set()
