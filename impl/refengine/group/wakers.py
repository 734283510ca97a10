"""How a call sleeps until something was heard: any number of threads, safe in signal handlers."""

import contextlib
import threading
from collections import deque

_LONGEST = 3600.0


class Waker:
    """Rings once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        """Wake the sleeper, who may not sleep yet."""
        self._lock.release()

    def sleep(self, seconds: float | None) -> None:
        """Until it rings, at most that long."""
        self._lock.acquire(timeout=_LONGEST if seconds is None else min(seconds, _LONGEST))


class Wakers:
    """All sleepers of one member. Nothing here is held, so an exception leaves nothing held.

    A sleeper hangs up a bell, looks whether there is news, and only then sleeps. Whoever brings
    news stores it first and rings after: no wake-up is lost.
    """

    def __init__(self) -> None:
        self._waiting: deque[Waker] = deque()

    def add(self) -> Waker:
        """A new bell, to be taken down by its owner."""
        waker = Waker()
        self._waiting.append(waker)
        return waker

    def remove(self, waker: Waker) -> None:
        """It need not ring any more."""
        with contextlib.suppress(ValueError):
            self._waiting.remove(waker)

    def wake_all(self) -> None:
        """Wake everybody; each bell rings once."""
        with contextlib.suppress(IndexError):
            while True:
                self._waiting.popleft().wake()
