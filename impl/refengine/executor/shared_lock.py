"""One lock for all workers of a pool; who dies with it gives it back."""

import fcntl
import os
import threading
from types import TracebackType


class SharedLock:
    """Over a file that every worker opens for itself: the kernel frees it with its holder."""

    def __init__(self, fd: int) -> None:
        self._fd = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        self._threads = threading.Lock()

    def acquire(self) -> None:
        """Wait until it is free, in this process's other threads, too."""
        self._threads.acquire()
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let the next one have it."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._threads.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def __del__(self) -> None:
        fd = getattr(self, "_fd", -1)
        if fd >= 0:
            os.close(fd)
