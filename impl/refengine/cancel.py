"""A cancel token that wakes a blocked call at once."""

import os
from typing import Protocol


class EventLike(Protocol):
    """threading.Event, or anything with its `is_set`; looked at every 50 ms while blocked."""

    def is_set(self) -> bool:
        """Whether it was set."""
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
        """Whether `set` was called."""
        return self._set

    def fileno(self) -> int:
        """Readable once set."""
        return self._fd

    def __del__(self) -> None:
        fd = getattr(self, "_fd", -1)
        if fd >= 0:
            os.close(fd)
