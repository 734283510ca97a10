"""One call at a time in a queue object; a second one raises (SPEC Q13)."""

import contextlib
import sys
import threading

from .errors import Busy


class Guard:
    """Not a lock to wait for. A call says, inline because it is the hot path.

        guard = self._guard
        if guard.inside:
            guard.refuse("dequeue")
        try:
            if not guard.acquire(False):
                raise Busy("dequeue")
            guard.inside = True
            ...
        finally:
            guard.leave()

    The lock knows its owner, so `leave` gives it back exactly if this thread has it. A signal
    handler may raise even on the way into `leave`; `refuse` recognises what that leaves (R9).
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire, self.release = self._lock.acquire, self._lock.release
        self.inside = False

    def enter(self, operation: str) -> None:
        """The first steps, for calls that are not hot (their frame has a local `guard`, too)."""
        if self.inside:
            self.refuse(operation)
        if not self.acquire(False):
            raise Busy(operation)
        self.inside = True

    def refuse(self, operation: str, seconds: float = 0.0) -> None:
        """Raise Busy, unless the call inside is a ghost of this thread: then forget it.

        `seconds`: how long another thread's call is waited for; negative: until it ends.
        """
        if not self.acquire(timeout=seconds):
            raise Busy(operation)
        if self._runs_below():
            self.release()
            raise Busy(operation)
        self.inside = False
        self._release_all()

    def enter_within(self, seconds: float) -> bool:
        """Take it once the call inside has ended, at most that much later (for `close`)."""
        if not self.acquire(timeout=max(0.0, seconds)):
            return False
        if self.inside and self._runs_below():
            self.release()
            return False
        self.inside = True
        return True

    def leave(self) -> None:
        """Give it back if this thread has it."""
        try:
            self.release()
        except RuntimeError:  # another thread's
            return
        self.inside = False

    def _release_all(self) -> None:
        with contextlib.suppress(RuntimeError):
            while True:
                self.release()

    def _runs_below(self) -> bool:
        """Whether a call that holds this guard is on this thread's stack, below the caller's."""
        frame = sys._getframe()  # pyright: ignore[reportPrivateUsage]  # no public way to frames
        while frame.f_code.co_filename == __file__ and frame.f_back is not None:
            frame = frame.f_back
        frame = frame.f_back  # the caller's own
        while frame is not None:
            if frame.f_locals.get("guard") is self:
                return True
            frame = frame.f_back
        return False
