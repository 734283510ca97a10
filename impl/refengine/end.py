"""What the two ends of a queue share: being entered, refused, stopped and taken down once."""

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable

from .clock import Clock
from .errors import Busy, DeadlinePassed, ForkedCopy, NotReady, QueueClosed, RefengineError
from .guard import Guard
from .keeping import Undo
from .ring import Ring
from .vigil import EpollVigil


class End(ABC):
    """`obstacle` makes the error every operation raises while it stands (None: go ahead).

    Whoever makes an end brings its `undo`, and closes that if the end is not made whole.
    """

    def __init__(self, clock: Clock, undo: Undo) -> None:
        self.obstacle: Callable[[str], RefengineError] | None = NotReady
        self.ready = False
        self._pid = os.getpid()
        self._clock = clock
        self._guard = Guard()
        self._closed = False
        self._undo = undo
        self._undo.callback(setattr, self, "_closed", True)  # the last thing to be done
        self._vigil = undo.made(EpollVigil.close, EpollVigil, clock)
        _ends.add(self)

    @abstractmethod
    def _arrive(self, left: Callable[[], float | None]) -> bool:
        """One round of the rendezvous, sleeping at most `left()`; True when complete."""

    @abstractmethod
    def _part(self, seconds: float) -> None:
        """Say goodbye; hand over what is under way within that time."""

    def wait_until_ready(self, timeout: float | None) -> None:
        """Meet the other parties; may be retried after its deadline (SPEC Q10)."""
        if self.obstacle not in (None, NotReady):
            raise self.obstacle("wait_until_ready")
        guard = self._guard
        if guard.inside:
            guard.refuse("wait_until_ready")
        try:
            if not guard.acquire(False):
                raise Busy("wait_until_ready")
            guard.inside = True
            left = countdown(timeout, self._clock)
            while not self.ready:
                if self._arrive(left):
                    self.obstacle = None
                    self.ready = True
                elif (seconds := left()) is not None and seconds <= 0:
                    raise DeadlinePassed(self._missing(), timeout or 0)
        finally:
            guard.leave()

    def stop(self) -> None:
        """Wake every waiter of this end and refuse further calls (any thread)."""
        if os.getpid() == self._pid:
            self._vigil.stop()

    def close(self, timeout: float) -> bool:
        """Stop, say goodbye, give everything back, within about `timeout`. Idempotent.

        False if a call is still inside (a signal handler closed the queue of its own thread).
        """
        if os.getpid() != self._pid or self._closed:
            return True
        left = countdown(timeout, self._clock)
        self._vigil.stop()
        if not self._guard.enter_within(timeout):
            return False
        try:
            if not self._closed:
                self.obstacle = _closed_here
                self._part(left() or 0.0)  # struck, it is done again, and changes nothing (R9)
                self._undo.close()
        finally:
            self._guard.leave()
        return True

    def inherited(self) -> None:
        """We are a fork's copy: never touch what the parent owns."""
        pid = self._pid
        self.obstacle = lambda _: ForkedCopy(pid)

    @property
    def ring(self) -> Ring | None:
        """The ring below, if this end has one."""
        return None

    @abstractmethod
    def _missing(self) -> str: ...


def countdown(timeout: float | None, clock: Clock) -> Callable[[], float | None]:
    """A function that gives the seconds left (negative when past), None for no deadline."""
    if timeout is None:
        return lambda: None
    end = clock() + timeout
    return lambda: end - clock()


def _closed_here(_: str) -> QueueClosed:
    return QueueClosed("this end")


_ends: "weakref.WeakSet[End]" = weakref.WeakSet()


def _after_fork() -> None:
    for end in list(_ends):
        end.inherited()


os.register_at_fork(after_in_child=_after_fork)
