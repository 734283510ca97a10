"""Simulated descriptors: counters (eventfd), and waiting for several descriptors (epoll)."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import Protocol

from killpoint.interfaces import World

_BY_EDGE = select.EPOLLET
_FIRST = 1 << 20
"""Beyond every descriptor that the process really has."""


class Thing(Protocol):
    """Object that a descriptor refers to."""

    writes: int
    """Number of writes to it; each is an edge."""

    def events(self, wanted: int) -> int:
        """Return those of these events that are present now."""
        ...


class Descriptors:
    """Descriptors of a world; the process's real ones are not among them.

    Writing and polling are system calls that take one lock after the other: a reader sees every
    store that the writer had made before. ``fence`` is that of the running task.
    """

    def __init__(self, world: World, fence: Callable[[], None]) -> None:
        self.world, self.fence = world, fence
        self.things: dict[int, Thing] = {}
        """Objects by their descriptors."""

    def eventfd(self, initval: int = 0, flags: int = 0) -> int:
        """Make a counter, which need not be read."""
        del flags
        return self.open(Counter(initval))

    def eventfd_write(self, fd: int, value: int) -> None:
        """Add to the counter, and so wake its pollers."""
        self.fence()
        self.world.point()
        thing = self.find(fd)
        assert isinstance(thing, Counter)
        thing.add(value)
        self.world.moved()
        if self.world.recording:
            self.world.note(f"rings the {thing}")

    def epoll(self, sizehint: int = -1, flags: int = 0) -> Epoll:
        """Make an epoll, which waits for several descriptors."""
        del sizehint, flags
        return Epoll(self)

    def open(self, thing: Thing) -> int:
        """Return a new descriptor for the object."""
        fd = _FIRST + len(self.things)
        self.things[fd] = thing
        return fd

    def find(self, fd: int) -> Thing:
        """Return the object of a descriptor.

        Raises:
            OSError: the descriptor is not a simulated one.
        """
        if fd not in self.things:
            raise OSError(9, os.strerror(9))
        return self.things[fd]

    def close(self, fd: int) -> None:
        """Close a real descriptor; a simulated one has nothing to release."""
        if fd < _FIRST:
            os.close(fd)


class Counter:
    """Eventfd: readable once written; each write is an edge."""

    def __init__(self, value: int) -> None:
        self._value = value
        self.writes = 1 if value else 0

    def add(self, value: int) -> None:
        """Add to the counter, and so wake its pollers."""
        self._value += value
        self.writes += 1

    def events(self, wanted: int) -> int:
        """Return the events, of which only ``EPOLLIN`` occurs."""
        return wanted & select.EPOLLIN if self._value else 0

    def __str__(self) -> str:
        return "bell"


class Epoll:
    """Epoll, triggered by level or by edges."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._descriptors = descriptors
        self._watched: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        """By descriptor, the number of edges that were reported, for those watched by edge."""
        self.writes = 0
        self._fd = descriptors.open(self)

    def fileno(self) -> int:
        """Return its own descriptor, which is readable while an event is to be reported."""
        return self._fd

    def register(self, fd: int, eventmask: int = select.EPOLLIN) -> None:
        """Watch a descriptor."""
        self._descriptors.find(fd)
        self._watched[fd] = eventmask
        self._seen[fd] = 0

    def unregister(self, fd: int) -> None:
        """Stop watching a descriptor."""
        if self._watched.pop(fd, None) is None:
            raise OSError(2, os.strerror(2))

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        """Return the events, after sleeping at most that many seconds."""
        del maxevents
        world = self._descriptors.world
        seconds = None if timeout is None or timeout < 0 else timeout
        world.wait(self._has_news, seconds, "its bell")
        found = self._news()
        for fd, _ in found:
            self._seen[fd] = self._descriptors.find(fd).writes
        if found:
            self._descriptors.fence()
        if world.recording:
            world.note("hears its bell" if found else "hears nothing")
        return found

    def events(self, wanted: int) -> int:
        """Return ``EPOLLIN``, if wanted, while there is an event to report."""
        return wanted & select.EPOLLIN if self._has_news() else 0

    def close(self) -> None:
        """Stop watching all descriptors."""
        self._watched.clear()

    def _news(self) -> list[tuple[int, int]]:
        return [(fd, now) for fd, mask in self._watched.items() if (now := self._now(fd, mask))]

    def _has_news(self) -> bool:
        """Return whether ``_news`` has any; inlined, as it runs at each change that may wake."""
        things, seen = self._descriptors.things, self._seen
        for fd, mask in self._watched.items():
            thing = things[fd]
            old = mask & _BY_EDGE and thing.writes == seen[fd]
            if not old and thing.events(mask):
                return True
        return False

    def _now(self, fd: int, mask: int) -> int:
        thing = self._descriptors.find(fd)
        if mask & _BY_EDGE and thing.writes == self._seen[fd]:
            return 0
        return thing.events(mask)
