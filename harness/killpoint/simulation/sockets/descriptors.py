"""Simulated descriptors: counters to ring with (eventfd), and what waits for several (epoll)."""

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
    """What a descriptor stands for."""

    writes: int
    """How often something came: an edge each."""

    def events(self, wanted: int) -> int:
        """Which of these events there are now."""
        ...


class Descriptors:
    """The descriptors of a world. What a real one is, it does not know.

    Ringing and hearing are system calls that take one lock after the other: whoever hears sees
    all that the one who rang had stored before. ``fence`` is that of the running task.
    """

    def __init__(self, world: World, fence: Callable[[], None]) -> None:
        self.world, self.fence = world, fence
        self.things: dict[int, Thing] = {}
        """By their numbers."""

    def eventfd(self, initval: int = 0, flags: int = 0) -> int:
        """A counter that nobody has to read."""
        del flags
        return self.open(Counter(initval))

    def eventfd_write(self, fd: int, value: int) -> None:
        """Ring."""
        self.fence()
        self.world.point()
        thing = self.find(fd)
        assert isinstance(thing, Counter)
        thing.add(value)
        self.world.moved()
        if self.world.recording:
            self.world.note(f"rings the {thing}")

    def epoll(self, sizehint: int = -1, flags: int = 0) -> Epoll:
        """What waits for several."""
        del sizehint, flags
        return Epoll(self)

    def open(self, thing: Thing) -> int:
        """A number for it."""
        fd = _FIRST + len(self.things)
        self.things[fd] = thing
        return fd

    def find(self, fd: int) -> Thing:
        """What the number stands for.

        Raises:
            OSError: it is none of these.
        """
        if fd not in self.things:
            raise OSError(9, os.strerror(9))
        return self.things[fd]

    def close(self, fd: int) -> None:
        """Real ones are closed really; of these nothing remains to be given back."""
        if fd < _FIRST:
            os.close(fd)


class Counter:
    """An eventfd: readable once rung; each ring is an edge."""

    def __init__(self, value: int) -> None:
        self._value = value
        self.writes = 1 if value else 0

    def add(self, value: int) -> None:
        """Ring."""
        self._value += value
        self.writes += 1

    def events(self, wanted: int) -> int:
        """Readable or not."""
        return wanted & select.EPOLLIN if self._value else 0

    def __str__(self) -> str:
        return "bell"


class Epoll:
    """Level-triggered or by edges, in as far as these things have any."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._descriptors = descriptors
        self._watched: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        """The edges that were reported, of those that are watched by edge."""
        self.writes = 0
        self._fd = descriptors.open(self)

    def fileno(self) -> int:
        """Its own descriptor: readable when it has something to report."""
        return self._fd

    def register(self, fd: int, eventmask: int = select.EPOLLIN) -> None:
        """Watch it."""
        self._descriptors.find(fd)
        self._watched[fd] = eventmask
        self._seen[fd] = 0

    def unregister(self, fd: int) -> None:
        """Watch it no more."""
        if self._watched.pop(fd, None) is None:
            raise OSError(2, os.strerror(2))

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        """What has come, after sleeping at most that many seconds."""
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
        """Readable if there is news."""
        return wanted & select.EPOLLIN if self._has_news() else 0

    def close(self) -> None:
        """Watch nothing."""
        self._watched.clear()

    def _news(self) -> list[tuple[int, int]]:
        return [(fd, now) for fd, mask in self._watched.items() if (now := self._now(fd, mask))]

    def _has_news(self) -> bool:
        """As ``_news``, at each change that a sleeper may have waited for: so by one frame."""
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
