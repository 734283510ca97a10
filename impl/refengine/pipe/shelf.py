"""Memory for snapshots, used again: fresh memory costs more than the copy into it."""

import mmap
from collections import deque
from collections.abc import Callable

from ..base.buffer_pool import rounded

_MOST_IDLE = 256 << 20


class Shelf:
    """What lies here and what is in use stay below `limit` together (SPEC K2).

    Any thread takes, any gives back; each is one append or pop.
    """

    def __init__(self, limit: int, in_use: Callable[[], int]) -> None:
        self._limit, self._in_use = limit, in_use
        self._idle: deque[mmap.mmap] = deque()

    @property
    def nbytes(self) -> int:
        """Of what lies here."""
        return sum(len(buffer) for buffer in list(self._idle))

    def take(self, nbytes: int) -> memoryview:
        """So much writable memory, of which the caller's use already counts."""
        size = rounded(nbytes)
        for _ in range(len(self._idle)):
            try:
                buffer = self._idle.popleft()
            except IndexError:
                break  # another thread was faster
            if len(buffer) == size:
                return memoryview(buffer)[:nbytes]
            if self.nbytes + len(buffer) + self._in_use() <= self._limit:
                self._idle.append(buffer)
        buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        buffer.madvise(mmap.MADV_HUGEPAGE)
        return memoryview(buffer)[:nbytes]

    def give_back(self, memory: memoryview) -> None:
        """It is not used any more, though it still counts as being so."""
        buffer = memory.obj
        if isinstance(buffer, mmap.mmap):
            idle = self.nbytes
            if idle + self._in_use() <= self._limit and idle + len(buffer) <= _MOST_IDLE:
                self._idle.append(buffer)

    def clear(self) -> None:
        """Let go of all that lies here."""
        self._idle.clear()
