"""Two ends of a link, or of a pipe, in one process."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from refengine.base.clock import monotonic
from refengine.pipe.link import CPU, Link, Location, PeerInfo
from refengine.pipe.protocol import Header, Kind, Metadata
from refengine.pipe.receiver import Receiver
from refengine.pipe.sender import Sender

KEY = bytes(range(32))
HERE = Location(bytes(16), CPU, "auto")
SESSION = b"s" * 32
GIVEN = 10.0


def links() -> tuple[Link, Link]:
    """From rank 0 to rank 1."""
    one, other = socket.socketpair()
    to, of = PeerInfo(1, os.getpid(), HERE), PeerInfo(0, os.getpid(), HERE)
    return Link(one, to, SESSION), Link(other, of, SESSION)


class Bytes:
    """A parcel of bytes, as a vector of uint8."""

    def __init__(self, data: bytes, label: bytes = b"", fail: Exception | None = None) -> None:
        self.data, self.label, self.fail, self.freed = data, label, fail, 0

    def header(self, number: int) -> Any:
        if self.fail is not None:
            raise self.fail
        told = Metadata("uint8", (len(self.data),))
        return Header(Kind.TENSOR, number, told, follows=len(self.data), label=self.label)

    def follows(self) -> memoryview:
        return memoryview(self.data)

    def beside(self) -> bool:
        return False

    def free(self) -> None:
        self.freed += 1


class ToBytes:
    """An inlet that gives bytes."""

    def __init__(self) -> None:
        self.closed = 0
        self.rooms: list[int] = []

    def room(self, header: Any) -> memoryview:
        self.rooms.append(header.follows)
        return memoryview(bytearray(header.follows))

    def tensor(self, header: Any, follows: memoryview) -> bytes:
        return bytes(follows)

    def close(self) -> None:
        self.closed += 1


def sender(link: Link, limit: int = 1 << 20, clock: Callable[[], float] = monotonic) -> Sender:
    return Sender(link, limit, 10.0, clock)


def receiver(link: Link, most: int = 1 << 20) -> Receiver:
    return Receiver(link, ToBytes(), most, 10.0, monotonic)


def put(end: Sender, data: bytes | Bytes, timeout: float | None = GIVEN) -> None:
    snapshot = data if isinstance(data, Bytes) else Bytes(data)
    end.send(len(snapshot.data), lambda: snapshot, timeout)


@contextlib.contextmanager
def ends(limit: int = 1 << 20, most: int = 1 << 20) -> Iterator[tuple[Sender, Receiver]]:
    out, into = links()
    one, other = sender(out, limit), receiver(into, most)
    one.start()
    try:
        yield one, other
    finally:
        one.close_now()
        other.close(1.0)


class Beside(threading.Thread):
    """What a call gives in another thread."""

    def __init__(self, act: Callable[..., Any], *args: Any) -> None:
        super().__init__(daemon=True)
        self._act, self._args = act, args
        self._found: list[Any] = []
        self._error: list[BaseException] = []
        self.start()

    def run(self) -> None:
        try:
            self._found.append(self._act(*self._args))
        except BaseException as error:
            self._error.append(error)

    def result(self) -> Any:
        self.join(GIVEN)
        assert not self.is_alive(), "it still waits"
        if self._error:
            raise self._error[0]
        return self._found[0]


def free_port(host: str = "127.0.0.1") -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
