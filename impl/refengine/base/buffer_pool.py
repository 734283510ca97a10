"""Large buffers that are used again: fresh memory costs more than the copy into it.

A first touch of each page makes fresh memory several times slower to fill than memory that was
filled before (measured at 32 MiB: 2.5 GB/s against 19).
"""

import mmap
import sys
from collections import OrderedDict, deque
from collections.abc import Callable

_MOST_BYTES = 128 << 20
_STEPS = 8
_MOST_IDLE = 256 << 20


class BufferPool:
    """Views of private memory. A buffer is used again once nothing outside the pool refers to it.

    So a caller that keeps an array keeps its memory, for as long as it likes (SPEC R6). Idle
    buffers are kept up to `most` bytes in all, those of the sizes used last.
    """

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._most = most
        self._held = 0
        self._by_size: OrderedDict[int, list[mmap.mmap]] = OrderedDict()

    def take(self, nbytes: int) -> memoryview:
        """Return `nbytes` of writable memory; its content is undefined."""
        size = rounded(nbytes)
        for buffer in self._by_size.get(size, ()):
            if sys.getrefcount(buffer) == _MINE:
                self._by_size.move_to_end(size)
                return memoryview(buffer)[:nbytes]
        return memoryview(self._fresh(size))[:nbytes]

    def _fresh(self, size: int) -> mmap.mmap:
        buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        buffer.madvise(mmap.MADV_HUGEPAGE)
        self._make_room(size)
        if self._held + size <= self._most:
            self._by_size.setdefault(size, []).append(buffer)
            self._by_size.move_to_end(size)
            self._held += size
        return buffer

    def _make_room(self, size: int) -> None:
        """Drop buffers of the sizes that were not asked for for the longest time."""
        while self._by_size and self._held + size > self._most:
            oldest = next(iter(self._by_size))
            buffers = self._by_size[oldest]
            buffers.pop()
            self._held -= oldest
            if not buffers:
                del self._by_size[oldest]


class SnapshotBuffers:
    """Buffers for copies that leave later. Idle ones and those in use stay below `limit` (SPEC K2).

    Any thread takes, any gives back; each is one append or pop.
    """

    def __init__(self, limit: int, in_use: Callable[[], int]) -> None:
        self._limit, self._in_use = limit, in_use
        self._idle: deque[mmap.mmap] = deque()

    @property
    def nbytes(self) -> int:
        """Bytes of idle buffers."""
        return sum(len(buffer) for buffer in list(self._idle))

    def take(self, nbytes: int) -> memoryview:
        """Return so much writable memory, of which the caller's use already counts."""
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
        """Take a buffer back, while its use still counts."""
        buffer = memory.obj
        if isinstance(buffer, mmap.mmap):
            idle = self.nbytes
            if idle + self._in_use() <= self._limit and idle + len(buffer) <= _MOST_IDLE:
                self._idle.append(buffer)

    def clear(self) -> None:
        """Let go of all that lies here."""
        self._idle.clear()


def _references() -> int:
    """Return the reference count of an idle buffer, as a loop over its list sees it.

    Measured, since interpreters differ in whether the variable that is asked about counts.
    """
    for buffer in [mmap.mmap(-1, mmap.PAGESIZE)]:
        return sys.getrefcount(buffer)
    return 0


_MINE = _references()


def rounded(nbytes: int) -> int:
    """Return a size up to an eighth larger: messages whose sizes differ little share buffers."""
    step = max(mmap.PAGESIZE, 1 << max(0, nbytes.bit_length() - 1 - _STEPS.bit_length() + 1))
    return -(-max(1, nbytes) // step) * step
