"""One call at a time in a queue object; a second one raises (SPEC Q13)."""

import threading

from .errors import Busy


class Guard:
    """Not a lock to wait for. A call says, inline because it is the hot path:

        if guard.inside: raise Busy      # a signal handler inside a call of its own thread
        try:
            if not guard.acquire(False): raise Busy
            guard.inside = True
            ...
        finally:
            guard.leave()

    The lock knows its owner, so after an exception anywhere around `acquire`, `leave` gives it
    back exactly if this thread has it (SPEC R9).
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire, self._release = self._lock.acquire, self._lock.release
        self.inside = False

    def enter(self, operation: str) -> None:
        """The first two steps, for calls that are not hot."""
        if self.inside or not self.acquire(False):
            raise Busy(operation)
        self.inside = True

    def enter_within(self, seconds: float) -> bool:
        """Take it once the call inside has ended, at most that much later (for `close`)."""
        if not self.acquire(timeout=max(0.0, seconds)):
            return False
        if self.inside:  # that call is of this very thread, below us
            self._release()
            return False
        self.inside = True
        return True

    def leave(self) -> None:
        """Give it back if this thread has it."""
        try:
            self._release()
        except RuntimeError:  # another thread's
            return
        self.inside = False
