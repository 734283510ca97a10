"""One call at a time in a queue object; a second one raises (SPEC Q13)."""

import contextlib
import sys
import threading

from ..errors import Busy


class ReentrancyGuard:
    """A guard that raises instead of waiting.

    A call says, inline because it is the hot path:

        guard = self._guard
        if guard.held:
            guard.raise_busy("dequeue")
        try:
            if not guard.acquire(False):
                raise Busy("dequeue")
            guard.held = True
            ...
        finally:
            guard.exit()

    The lock knows its owner, so `exit` releases it exactly if this thread has it. A signal
    handler may raise even on the way into `exit`; `raise_busy` recognises the mark left then (R9).
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire, self.release = self._lock.acquire, self._lock.release
        self.held = False

    def enter(self, operation: str) -> None:
        """Enter, for calls that are not hot (their frame has a local variable `guard`, too)."""
        if self.held:
            self.raise_busy(operation)
        if not self.acquire(False):
            raise Busy(operation)
        self.held = True

    def raise_busy(self, operation: str, seconds: float = 0.0) -> None:
        """Raise Busy, unless an interrupted call of this thread left the mark: then clear it.

        `seconds`: time for which another thread's call is waited for; negative: until it ends.
        """
        if not self.acquire(timeout=seconds):
            raise Busy(operation)
        if self._is_on_stack():
            self.release()
            raise Busy(operation)
        self.held = False
        self._release_all()

    def enter_within(self, seconds: float) -> bool:
        """Enter once the call inside has ended, at most `seconds` later (for `close`)."""
        if not self.acquire(timeout=max(0.0, seconds)):
            return False
        if self.held and self._is_on_stack():
            self.release()
            return False
        self.held = True
        return True

    def exit(self) -> None:
        """Release the lock if this thread has it."""
        try:
            self.release()
        except RuntimeError:  # another thread's
            return
        self.held = False

    def _release_all(self) -> None:
        with contextlib.suppress(RuntimeError):
            while True:
                self.release()

    def _is_on_stack(self) -> bool:
        """Return whether a call that holds this guard is below the caller on its stack."""
        frame = sys._getframe()  # pyright: ignore[reportPrivateUsage]  # no public way to frames
        while frame.f_code.co_filename == __file__ and frame.f_back is not None:
            frame = frame.f_back
        frame = frame.f_back  # the caller's own
        while frame is not None:
            if frame.f_locals.get("guard") is self:
                return True
            frame = frame.f_back
        return False
