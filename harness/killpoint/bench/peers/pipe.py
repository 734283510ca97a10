"""``multiprocessing.Pipe``: one for each reader, and the writer sends to each of them."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

from killpoint.bench.peers.descriptors import HandOver, receive_descriptors
from killpoint.targets.shapes import QueueShape


class PipePeer:
    """The standard library's way."""

    def load(self) -> None:
        """Do nothing: there is nothing to import."""

    def make(self, shape: QueueShape) -> _Writer:
        """The writing ends of as many pipes as there are readers."""
        return _Writer(shape.readers)

    def handle(self, end: _Writer) -> str:
        """Return the path at which the reading ends are handed out."""
        return end.hand_over.path

    def attach(self, handle: str, rank: int) -> _Reader:
        """Return one reading end, whose descriptor arrives in ``ready``."""
        return _Reader(handle, rank)

    def ready(self, end: _Writer | _Reader, timeout: float | None) -> None:
        """Hand the reading ends over."""
        end.ready(timeout)

    def send(self, end: _Writer, obj: Any, timeout: float | None) -> None:
        """Send to each reader."""
        del timeout
        end.enqueue(obj)

    def receive(self, end: _Reader, timeout: float | None) -> Any:
        """The next."""
        del timeout
        return end.dequeue()

    def close(self, end: _Writer | _Reader) -> None:
        """Close."""
        end.close()


class _Writer:
    def __init__(self, readers: int) -> None:
        pipes = [multiprocessing.Pipe(duplex=False) for _ in range(readers)]
        self._reading = [reading for reading, _ in pipes]
        self._writing = [writing for _, writing in pipes]
        self.hand_over = HandOver([[reading.fileno()] for reading in self._reading])

    def ready(self, timeout: float | None) -> None:
        self.hand_over.serve(timeout)
        for reading in self._reading:
            reading.close()

    def enqueue(self, obj: Any) -> None:
        for writing in self._writing:
            writing.send(obj)

    def close(self) -> None:
        self.hand_over.close()
        for connection in (*self._reading, *self._writing):
            connection.close()


class _Reader:
    def __init__(self, path: str, rank: int) -> None:
        self._path, self._rank = path, rank
        self._reading: Connection | None = None

    def ready(self, timeout: float | None) -> None:
        (descriptor,) = receive_descriptors(self._path, self._rank, timeout)
        self._reading = Connection(descriptor, writable=False)
        self.dequeue = self._reading.recv

    def dequeue(self) -> Any:
        raise RuntimeError("not ready")

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
