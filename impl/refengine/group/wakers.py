"""Waiting for the next frame, in any number of threads; safe in signal handlers."""

import contextlib
import threading
from collections import deque

_LONGEST = 3600.0


class Waker:
    """Wakes one sleep, once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        """Wake the sleeper, which may not sleep yet."""
        self._lock.release()

    def sleep(self, seconds: float | None) -> None:
        """Sleep until `wake`, for at most that long."""
        self._lock.acquire(timeout=_LONGEST if seconds is None else min(seconds, _LONGEST))


class Wakers:
    """All sleepers of one rank. No lock is held, so an exception leaves none held.

    A sleeper adds a waker, checks for news, and only then sleeps. A thread with news stores it
    first and wakes after: no wake-up is lost.
    """

    def __init__(self) -> None:
        self._waiting: deque[Waker] = deque()

    def add(self) -> Waker:
        """Return a new waker, to be removed by its owner."""
        waker = Waker()
        self._waiting.append(waker)
        return waker

    def remove(self, waker: Waker) -> None:
        """Forget a waker, if it has not woken yet."""
        with contextlib.suppress(ValueError):
            self._waiting.remove(waker)

    def wake_all(self) -> None:
        """Wake every sleeper, each once."""
        with contextlib.suppress(IndexError):
            while True:
                self._waiting.popleft().wake()
