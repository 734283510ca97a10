"""Queues of pipes of which something stays of each message, or which copy it into a ring."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from typing import TYPE_CHECKING, Any

from os_pipes import OsPipeTarget

if TYPE_CHECKING:
    from os_pipes import Reader, Writer

_MIB = 1 << 20
_ENTRY = 1024
"""Bytes of a ring that a message fills."""


class Leak1(OsPipeTarget):
    """One byte stays of each message, on either side."""

    bytes_each = 1

    def __init__(self) -> None:
        self._stays = bytearray()

    def send(self, end: Writer, obj: Any, timeout: float | None) -> None:
        super().send(end, obj, timeout)
        self._stays += bytes(self.bytes_each)

    def receive(self, end: Reader, timeout: float | None) -> Any:
        obj = super().receive(end, timeout)
        self._stays += bytes(self.bytes_each)
        return obj


class Leak4(Leak1):
    bytes_each = 4


class Leak8(Leak1):
    bytes_each = 8


class Leak64(Leak1):
    bytes_each = 64


class LeakOfObjects(OsPipeTarget):
    """Of every eighth message a small object stays in the reader: nine bytes a message."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._count = 0

    def receive(self, end: Reader, timeout: float | None) -> Any:
        self._count += 1
        if self._count % 8 == 0:
            self._kept.append(bytes(31))
        return super().receive(end, timeout)


class LeakInReader(OsPipeTarget):
    """A pointer stays of each message that came: eight bytes of a list."""

    def __init__(self) -> None:
        self._came: list[None] = []

    def receive(self, end: Reader, timeout: float | None) -> Any:
        self._came.append(None)
        return super().receive(end, timeout)


class MoreThreadsAtATime(OsPipeTarget):
    """Every 200 messages the reader has one thread more at a time; each has a large buffer."""

    def __init__(self) -> None:
        self._count = 0

    def receive(self, end: Reader, timeout: float | None) -> Any:
        self._count += 1
        if self._count % 200 == 0:
            self._crowd(1 + self._count // 200)
        return super().receive(end, timeout)

    def _crowd(self, size: int) -> None:
        there = threading.Barrier(size)

        def live() -> None:
            buffer = bytearray(100_000)
            there.wait(10.0)
            del buffer

        threads = [threading.Thread(target=live) for _ in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class _Ring(OsPipeTarget):
    """The writer copies each message into a ring of this length."""

    length = 64 * _MIB
    file = True

    def __init__(self) -> None:
        self._ring: mmap.mmap | None = None
        self._at = 0

    def make(self, shape: Any) -> Writer:
        self._ring = self._mapped()
        return super().make(shape)

    def _mapped(self) -> mmap.mmap:
        if not self.file:
            return mmap.mmap(-1, self.length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with tempfile.TemporaryFile(dir="/dev/shm") as file:
            os.ftruncate(file.fileno(), self.length)
            return mmap.mmap(file.fileno(), self.length)

    def send(self, end: Writer, obj: Any, timeout: float | None) -> None:
        assert self._ring is not None
        self._ring[self._at : self._at + _ENTRY] = b"x" * _ENTRY
        self._at = (self._at + _ENTRY) % self.length
        super().send(end, obj, timeout)


class MappedRing(_Ring):
    """64 MiB of a file, which no play laps."""


class LittleMappedRing(_Ring):
    """2.5 MB of a file: touched for the first time during the first seconds."""

    length = 5 * _MIB // 2


class PrivateRing(_Ring):
    """64 MiB of the writer's own memory, which no play laps."""

    file = False


class LittlePrivateRing(PrivateRing):
    """2.5 MB of the writer's own memory, lapped again and again."""

    length = 5 * _MIB // 2
