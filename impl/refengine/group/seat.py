"""A rank's place in a group: whether a call may go on, how it waits, and the one end of it all."""

import os
from collections.abc import Callable

from ..base.clock import Clock, Deadline
from ..errors import DeadlinePassed, ForkedCopy, GroupClosed, NotReady, RefengineError
from .joining import Link
from .member import Member

_SETTLED = 1.0
"""Seconds after which a group that was given to its caller stands, if it is not used earlier."""

Obstacle = Callable[[], RefengineError | None]


class Seat:
    """`member` has heard things, `link` says things, and calls wait here."""

    def __init__(self, member: Member, link: Link, clock: Clock) -> None:
        self.member, self.link, self.clock = member, link, clock
        self.ready = False
        self._settled = False
        self._pid = os.getpid()
        self._closed = False

    def begin(self) -> None:
        """All ranks are there. The caller who is about to be told may still be interrupted."""
        self.ready = True
        self.link.settle(_SETTLED)

    def check(self) -> None:
        """Raise if nothing can be done here any more."""
        if self._pid != os.getpid():
            raise ForkedCopy(self._pid, "group")
        if self._closed:
            raise GroupClosed("this rank")
        if self.member.refusal is not None:
            raise self.member.refusal

    def enter(self, operation: str) -> None:
        """The same, and before all ranks are there."""
        self.check()
        if not self.ready:
            raise NotReady(operation)
        self._settle()

    def wait(
        self,
        is_there: Callable[[], bool],
        obstacle: Obstacle,
        timeout: float | None,
        waiting_for: str,
    ) -> None:
        """Return once `is_there`; only then do an obstacle and the deadline count."""
        bells, left = self.member.bells, Deadline(timeout, self.clock).remaining
        while True:
            bell = bells.hang()
            try:
                self.check()
                error = obstacle()  # before the look: what came before it is seen
                if is_there():
                    return
                if error is not None:
                    raise error
                seconds = left()
                if seconds is not None and seconds <= 0:
                    raise DeadlinePassed(waiting_for, timeout or 0)
                bell.sleep(seconds)
            finally:
                bells.take_down(bell)

    def close(self, seconds: float) -> None:
        """Wake every call here, hand over what was sent, say goodbye. Idempotent."""
        if self._pid != os.getpid():
            return
        self._closed = True
        self.member.bells.ring()
        if self.ready:
            self._settle()
            self.link.close(seconds)
        else:
            self.link.close(0.0)  # nothing was sent, and nothing is confirmed yet

    def take_back(self) -> bool:
        """Leave as if we had never come; False if it is too late for that."""
        if self._pid == os.getpid() and not self._closed:
            if not self.link.take_back():
                return False
            self._closed = True
            self.member.bells.ring()
        return True

    def _settle(self) -> None:
        if not self._settled:
            self.link.settle(0.0)
            self._settled = True
