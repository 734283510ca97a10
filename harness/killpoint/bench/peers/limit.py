"""Lower bounds of any queue: a wake-up with nothing sent, and a copy that no process reads."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from killpoint.bench.peers.descriptors import HandOver, receive_descriptors
from killpoint.targets.shapes import QueueShape


class WakePeer:
    """One eventfd for each reader: ``send`` wakes it, and carries nothing."""

    def load(self) -> None:
        """Do nothing: there is nothing to import."""

    def make(self, shape: QueueShape) -> _Waker:
        """The eventfds."""
        return _Waker(shape.readers)

    def handle(self, end: _Waker) -> str:
        """Return the path at which the eventfds are handed out."""
        return end.hand_over.path

    def attach(self, handle: str, rank: int) -> _Sleeping:
        """Return the end of one reader, whose eventfd arrives in ``ready``."""
        return _Sleeping(handle, rank)

    def ready(self, end: _Waker | _Sleeping, timeout: float | None) -> None:
        """Hand them over."""
        end.ready(timeout)

    def send(self, end: _Waker, obj: Any, timeout: float | None) -> None:
        """Wake every reader."""
        del timeout
        end.enqueue(obj)

    def receive(self, end: _Sleeping, timeout: float | None) -> Any:
        """Sleep."""
        del timeout
        return end.dequeue()

    def close(self, end: _Waker | _Sleeping) -> None:
        """Close."""
        end.close()


class _Waker:
    def __init__(self, readers: int) -> None:
        self._bells = [os.eventfd(0, os.EFD_CLOEXEC | os.EFD_SEMAPHORE) for _ in range(readers)]
        self.hand_over = HandOver([[bell] for bell in self._bells])

    def ready(self, timeout: float | None) -> None:
        self.hand_over.serve(timeout)

    def enqueue(self, obj: Any) -> None:
        del obj
        for bell in self._bells:
            os.eventfd_write(bell, 1)

    def close(self) -> None:
        self.hand_over.close()
        for bell in self._bells:
            os.close(bell)


class _Sleeping:
    def __init__(self, path: str, rank: int) -> None:
        self._path, self._rank = path, rank
        self._bell = -1

    def ready(self, timeout: float | None) -> None:
        (self._bell,) = receive_descriptors(self._path, self._rank, timeout)

    def dequeue(self) -> None:
        os.eventfd_read(self._bell)

    def close(self) -> None:
        if self._bell >= 0:
            os.close(self._bell)


class CopyPeer:
    """A copy of the data into shared memory, four places in turn. There is no reader."""

    _PLACES = 4

    def load(self) -> None:
        """Do nothing: there is nothing to import."""

    def make(self, shape: QueueShape) -> _Copier:
        """The shared memory; the shape's chunk is the size of what will be copied."""
        return _Copier(shape.chunk_bytes, self._PLACES)

    def handle(self, end: _Copier) -> None:
        """Return None: no reader attaches."""

    def attach(self, handle: None, rank: int) -> None:
        """Return None: no reader attaches."""

    def ready(self, end: _Copier, timeout: float | None) -> None:
        """Do nothing: no reader is awaited."""

    def send(self, end: _Copier, obj: Any, timeout: float | None) -> None:
        """Copy."""
        del timeout
        end.enqueue(obj)

    def receive(self, end: Any, timeout: float | None) -> Any:
        """Raise an error: a copy has no reader."""
        raise RuntimeError("a copy has no reader")

    def close(self, end: _Copier) -> None:
        """Give the memory back."""
        end.close()


class _Copier:
    def __init__(self, size: int, places: int) -> None:
        self._memory = mmap.mmap(-1, size * places)  # shared, and has no name
        whole = np.frombuffer(self._memory, np.uint8)
        self._places = [whole[at : at + size] for at in range(0, size * places, size)]
        self._next = 0

    def enqueue(self, obj: Any) -> None:
        data: Any = np.frombuffer(obj, np.uint8) if isinstance(obj, bytes) else obj["data"]
        place = self._places[self._next]
        self._next = (self._next + 1) % len(self._places)
        place[:] = data

    def close(self) -> None:
        self._places.clear()
