"""A queue that shares no memory: each message is a memfd, passed over a socket to every reader.

It is here to be judged (docs/targets.md), and knows nothing of who judges it. The kernel keeps
what was sent, so messages survive their writer, and a death closes a socket, so it is told at
once. What it does not hold: a child forked from a party keeps that party's sockets open, and
then the party's death is not told. It has no ring, no cancel and no format limits to judge.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import select
import socket
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from killpoint.targets.protocol import Capability, Outcome, QueueShape

_MESSAGE, _TAKEN, _GO, _BYE = b"m", b"t", b"g", b"b"


class PeerGone(Exception):
    """The other side ended without a word."""


class Closed(Exception):
    """The other side closed its end."""


class _Line:
    """One connection: packets of one byte, with a message's memfd beside it."""

    def __init__(self, sock: socket.socket, free: int = 0) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.free = free  # messages that the reader still has room for
        self.over: Exception | None = None

    def put(self, word: bytes, *fds: int) -> None:
        """Send a packet; that the other side is gone is found out by the next take."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self.sock, [word], fds)

    def take(self, deadline: float | None) -> tuple[bytes, list[int]]:
        """The next packet; raises TimeoutError, PeerGone or Closed, the last two for good."""
        while self.over is None:
            try:
                word, fds, _, _ = socket.recv_fds(self.sock, 1, 1, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                _wait([self.sock], deadline)
            except ConnectionResetError:
                continue  # it left something unread; what it sent before comes after this error
            else:
                if word not in (b"", _BYE):
                    return word, fds
                self.over = Closed("the queue was closed") if word else PeerGone("a party died")
        raise self.over


class Writer:
    """The one end that sends; at most ``slots`` messages wait for each reader."""

    def __init__(self, readers: int, slots: int) -> None:
        self.name = "\0pipe-queue-" + secrets.token_hex(8)  # abstract: it leaves no file
        self._readers, self._slots = readers, slots
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.bind(self.name)
        self._door.listen(readers)
        self._door.setblocking(False)
        self._lines: list[_Line] = []
        self._turn = threading.Lock()
        self.close = weakref.finalize(self, _hang_up, os.getpid(), self._lines, self._door)

    def ready(self, timeout: float | None = None) -> None:
        """Wait for every reader to attach, and tell them all."""
        deadline = _deadline(timeout)
        while len(self._lines) < self._readers:
            _wait([self._door, *(line.sock for line in self._lines)], deadline)
            self._hear(self._lines)
            with contextlib.suppress(BlockingIOError):
                guest = self._door.accept()[0]
                if _user(guest) == os.getuid():
                    self._lines.append(_Line(guest, self._slots))
        self._hear(self._lines)
        for line in self._lines:
            line.put(_GO)

    def send(self, obj: Any, timeout: float | None = None) -> None:
        """Send to every reader, or to none: nothing leaves before all have room."""
        deadline = _deadline(timeout)
        body = pickle.dumps(obj, protocol=5)
        with _turn(self._turn, deadline):
            self._hear(self._lines)
            for line in self._lines:
                while not line.free:
                    line.take(deadline)
                    line.free += 1
            with os.fdopen(os.memfd_create("message"), "wb", buffering=0) as file:
                while body:
                    body = memoryview(body)[file.write(body) :]
                for line in self._lines:
                    line.free -= 1
                    line.put(_MESSAGE, file.fileno())

    def _hear(self, lines: list[_Line]) -> None:
        """Take in what readers have said so far; raises if one of them is gone."""
        for line in lines:
            with contextlib.suppress(TimeoutError):
                while line.take(deadline=0.0):
                    line.free += 1


class Reader:
    """One end that receives."""

    def __init__(self, name: str) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line = _Line(sock)
        self._turn = threading.Lock()
        self.close = weakref.finalize(self, _hang_up, os.getpid(), [self._line])
        sock.connect(name)

    def ready(self, timeout: float | None = None) -> None:
        """Wait until the writer says that all are here."""
        self._line.take(_deadline(timeout))

    def receive(self, timeout: float | None = None) -> Any:
        """The next message, in memory of its own."""
        deadline = _deadline(timeout)
        with _turn(self._turn, deadline):
            _, fds = self._line.take(deadline)
            with os.fdopen(fds[0], "rb", buffering=0) as file:
                body = self._read(file.fileno(), os.fstat(fds[0]).st_size)
            self._line.put(_TAKEN)
        return pickle.loads(body)

    def _read(self, fd: int, size: int) -> bytearray:
        """The content; every reader shares the file's position, so none may move it."""
        body, at = bytearray(size), 0
        while at < size:
            at += os.preadv(fd, [memoryview(body)[at:]], at)
        return body


def _hang_up(owner: int, lines: list[_Line], *doors: socket.socket) -> None:
    """Say goodbye and close; a fork's copy of the object only closes."""
    for line in lines:
        if os.getpid() == owner:
            with contextlib.suppress(OSError):
                line.put(_BYE)
        line.sock.close()
    for door in doors:
        door.close()


def _user(sock: socket.socket) -> int:
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", credentials)[1]


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + max(0.0, timeout)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _wait(socks: list[socket.socket], deadline: float | None) -> None:
    """Wait for something to read on any of these."""
    while not select.select(socks, [], [], _left(deadline))[0]:
        if not _left(deadline):
            raise TimeoutError("nothing came by the deadline")


@contextlib.contextmanager
def _turn(lock: threading.Lock, deadline: float | None) -> Iterator[None]:
    """One thread at a time; the others wait no longer than their own deadline."""
    left = _left(deadline)
    if not lock.acquire(timeout=-1 if left is None else left):
        raise TimeoutError("another thread was busy with this end until the deadline")
    try:
        yield
    finally:
        lock.release()


class PipeTarget:
    """What killpoint is given: nine methods that call the queue, and four facts about it."""

    name = "pipe_queue"
    version = "1"
    capabilities: frozenset[Capability] = frozenset(("queue", "deadlines"))
    preloads: tuple[str, ...] = ()  # it needs no torch

    def load(self) -> None:
        """Import the queue here, if importing this module has not done so."""

    def make(self, shape: QueueShape) -> Writer:
        return Writer(shape.readers, shape.chunks)

    def handle(self, end: Writer) -> str:
        return end.name

    def attach(self, handle: str, rank: int) -> Reader:
        return Reader(handle)

    def ready(self, end: Writer | Reader, timeout: float | None) -> None:
        end.ready(timeout)

    def send(self, end: Writer, obj: Any, timeout: float | None) -> None:
        end.send(obj, timeout)

    def receive(self, end: Reader, timeout: float | None) -> Any:
        return end.receive(timeout)

    def close(self, end: Writer | Reader) -> None:
        end.close()

    def classify(self, error: BaseException) -> Outcome:
        if isinstance(error, TimeoutError):
            return "timeout"
        if isinstance(error, PeerGone):
            return "peer-died"
        return "closed" if isinstance(error, Closed) else "error"
