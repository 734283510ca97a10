"""The calls of one rank: which may start, how they wait, how the rank leaves its group.

A group whose creator was interrupted at the very end of `create` cannot be undone any more, for
the other ranks may be at work already, by way of rank 0 (SPEC R9). It is orphaned: the next call
for the same place returns it. If none comes in time it is closed, and the others learn that its
rank has left.
"""

import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from ..base.clock import Clock, Deadline
from ..errors import DeadlinePassed, ForkedCopy, GroupClosed, NotReady, RefengineError
from .connection import Link
from .member import Member

_SETTLED = 1.0
"""Seconds until a rank's joining is final; its first call makes it final earlier."""

Obstacle = Callable[[], RefengineError | None]


class CallContext:
    """State that a rank's calls share: `member` holds the frames received, `link` sends."""

    def __init__(self, member: Member, link: Link, clock: Clock) -> None:
        self.member, self.link, self.clock = member, link, clock
        self.ready = False
        self._settled = False
        self._pid = os.getpid()
        self._closed = False

    def begin(self) -> None:
        """Mark the group as ready. The caller, about to return, may still be interrupted."""
        self.ready = True
        self.link.settle(_SETTLED)

    def check(self) -> None:
        """Raise if no call can succeed here any more."""
        if self._pid != os.getpid():
            raise ForkedCopy(self._pid, "group")
        if self._closed:
            raise GroupClosed("this rank")
        if self.member.refusal is not None:
            raise self.member.refusal

    def enter(self, operation: str) -> None:
        """Raise also before all ranks have joined."""
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
        wakers, left = self.member.wakers, Deadline(timeout, self.clock).remaining
        while True:
            waker = wakers.add()
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
                waker.sleep(seconds)
            finally:
                wakers.remove(waker)

    def close(self, seconds: float) -> None:
        """Wake every call, hand over what was sent, say goodbye. Idempotent."""
        if self._pid != os.getpid():
            return
        self._closed = True
        self.member.wakers.wake_all()
        if self.ready:
            self._settle()
            self.link.close(seconds)
        else:
            self.link.close(0.0)  # nothing was sent, and nothing is confirmed yet

    def take_back(self) -> bool:
        """Leave as if this rank had never joined; False if it is too late for that."""
        if self._pid == os.getpid() and not self._closed:
            if not self.link.take_back():
                return False
            self._closed = True
            self.member.wakers.wake_all()
        return True

    def _settle(self) -> None:
        if not self._settled:
            self.link.settle(0.0)
            self._settled = True


class Closeable(Protocol):
    """Interface of a group that can be orphaned."""

    def close(self) -> None:
        """Leave."""
        ...


OrphanedGroup = TypeVar("OrphanedGroup", bound=Closeable)


class OrphanedGroups(Generic[OrphanedGroup]):
    """At most one orphaned group for each place, with a timer that runs until it is asked for."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, OrphanedGroup] = {}
        self._timers: dict[Hashable, threading.Timer] = {}

    def add(self, place: Hashable, group: OrphanedGroup) -> None:
        """Keep a group for the next call."""
        self._groups[place] = group

    def start_timer(self, place: Hashable, seconds: float) -> None:
        """Start the timer that closes the group of this place, if there is one."""
        if place in self._groups:
            timer = threading.Timer(seconds, self._expire, (place,))
            timer.daemon = True
            self._timers[place] = timer
            timer.start()

    def find(self, place: Hashable) -> OrphanedGroup | None:
        """Return the group of this place, and stop its timer."""
        timer = self._timers.pop(place, None)
        if timer is not None:
            timer.cancel()
        return self._groups.get(place)

    def remove(self, place: Hashable) -> None:
        """Forget the group of this place: its caller has it."""
        self._groups.pop(place, None)

    def _expire(self, place: Hashable) -> None:
        self._timers.pop(place, None)
        group = self._groups.pop(place, None)
        if group is not None:
            group.close()
