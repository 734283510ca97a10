"""Base of both ends of a queue: handshake, one call at a time, stop, close once."""

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable

from ..errors import Busy, DeadlinePassed, ForkedCopy, NotReady, QueueClosed, RefengineError
from .cleanup import ReleaseStack
from .clock import Clock, Deadline
from .event_waiter import EpollWaiter
from .reentrancy import ReentrancyGuard


class Endpoint(ABC):
    """One end. While `refusal_error` is set, every operation raises the error that it makes.

    The caller that makes an end passes its `undo`, and closes that if the constructor raises.
    """

    def __init__(self, clock: Clock, undo: ReleaseStack) -> None:
        self.refusal_error: Callable[[str], RefengineError] | None = NotReady
        self.ready = False
        self._pid = os.getpid()
        self._clock = clock
        self._guard = ReentrancyGuard()
        self._closed = False
        self._undo = undo
        self._undo.callback(setattr, self, "_closed", True)  # the last thing to be done
        self._waiter = undo.acquire(EpollWaiter.close, EpollWaiter, clock)
        _endpoints.add(self)

    @abstractmethod
    def _handshake_step(self, left: Callable[[], float | None]) -> bool:
        """Do one round of the handshake, sleeping at most `left()`; return whether it is done."""

    @abstractmethod
    def _shutdown(self, seconds: float) -> None:
        """Say goodbye; hand over messages that are under way, within that time."""

    def wait_until_ready(self, timeout: float | None) -> None:
        """Complete the handshake; may be retried after its deadline (SPEC Q10)."""
        if self.refusal_error not in (None, NotReady):
            raise self.refusal_error("wait_until_ready")
        guard = self._guard
        if guard.held:
            guard.raise_busy("wait_until_ready")
        try:
            if not guard.acquire(False):
                raise Busy("wait_until_ready")
            guard.held = True
            left = Deadline(timeout, self._clock).remaining
            while not self.ready:
                if self._handshake_step(left):
                    self.refusal_error = None
                    self.ready = True
                elif (seconds := left()) is not None and seconds <= 0:
                    raise DeadlinePassed(self._missing(), timeout or 0)
        finally:
            guard.exit()

    def stop(self) -> None:
        """Wake every waiter of this end and refuse further calls (any thread)."""
        if os.getpid() == self._pid:
            self._waiter.stop()

    def close(self, timeout: float) -> bool:
        """Stop, say goodbye, release everything, within about `timeout`. Idempotent.

        False if a call is still inside (a signal handler closed the queue of its own thread).
        """
        if os.getpid() != self._pid or self._closed:
            return True
        left = Deadline(timeout, self._clock).remaining
        self._waiter.stop()
        if not self._guard.enter_within(timeout):
            return False
        try:
            if not self._closed:
                self.refusal_error = _closed_here
                self._shutdown(left() or 0.0)  # struck, it is done again, and changes nothing (R9)
                self._undo.close()
        finally:
            self._guard.exit()
        return True

    def inherited(self) -> None:
        """Refuse every call: this is a fork's copy, and the parent owns the resources."""
        pid = self._pid
        self.refusal_error = lambda _: ForkedCopy(pid)

    @abstractmethod
    def _missing(self) -> str: ...


def _closed_here(_: str) -> QueueClosed:
    return QueueClosed("this end")


_endpoints: "weakref.WeakSet[Endpoint]" = weakref.WeakSet()


def _after_fork() -> None:
    for end in list(_endpoints):
        end.inherited()


os.register_at_fork(after_in_child=_after_fork)
