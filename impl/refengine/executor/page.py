"""What the workers of a pool and their parent share besides queues: how far each one is."""

import mmap
import os
import time

_WORDS = 4
_STARTED, _DONE, _SINCE = 0, 1, 2


class Page:
    """Four 8-byte words a worker: calls begun, calls done, and since when it has been in one.

    The file is also what `SharedLock` locks.
    """

    def __init__(self, fd: int, world_size: int) -> None:
        """Over an open file of `new_file`; the descriptor stays the caller's."""
        mapping = mmap.mmap(fd, _bytes(world_size))
        self._words = memoryview(mapping).cast("Q")

    def begin(self, rank: int) -> None:
        """A worker enters a call."""
        at = rank * _WORDS
        self._words[at + _SINCE] = time.monotonic_ns()
        self._words[at + _STARTED] += 1

    def end(self, rank: int) -> None:
        """It has left it."""
        self._words[rank * _WORDS + _DONE] += 1

    def done(self, rank: int) -> int:
        """How many calls it has finished."""
        return self._words[rank * _WORDS + _DONE]

    def busy_for(self, rank: int) -> float | None:
        """Seconds since it entered the call that it is in; None: it is in none."""
        at = rank * _WORDS
        if self._words[at + _STARTED] == self._words[at + _DONE]:
            return None
        return (time.monotonic_ns() - self._words[at + _SINCE]) / 1e9


def new_file(world_size: int) -> int:
    """A descriptor of a file without a name."""
    fd = os.memfd_create("refengine-page", os.MFD_CLOEXEC)
    os.truncate(fd, _bytes(world_size))
    return fd


def _bytes(world_size: int) -> int:
    return -(-world_size * _WORDS * 8 // mmap.PAGESIZE) * mmap.PAGESIZE
