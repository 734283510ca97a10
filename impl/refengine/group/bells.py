"""How a call sleeps until something was heard: any number of threads, safe in signal handlers."""

import contextlib
import threading
from collections import deque

_LONGEST = 3600.0


class Bell:
    """Rings once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake the sleeper, who may not sleep yet."""
        self._lock.release()

    def sleep(self, seconds: float | None) -> None:
        """Until it rings, at most that long."""
        self._lock.acquire(timeout=_LONGEST if seconds is None else min(seconds, _LONGEST))


class Bells:
    """All sleepers of one member. Nothing here is held, so an exception leaves nothing held.

    A sleeper hangs up a bell, looks whether there is news, and only then sleeps. Whoever brings
    news stores it first and rings after: no wake-up is lost.
    """

    def __init__(self) -> None:
        self._hanging: deque[Bell] = deque()

    def hang(self) -> Bell:
        """A new bell, to be taken down by its owner."""
        bell = Bell()
        self._hanging.append(bell)
        return bell

    def take_down(self, bell: Bell) -> None:
        """It need not ring any more."""
        with contextlib.suppress(ValueError):
            self._hanging.remove(bell)

    def ring(self) -> None:
        """Wake everybody; each bell rings once."""
        with contextlib.suppress(IndexError):
            while True:
                self._hanging.popleft().ring()
