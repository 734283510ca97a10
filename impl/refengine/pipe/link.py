"""An authenticated connection to a neighbour: tensors go one way, short answers the other."""

import contextlib
import math
import os
import select
import socket
import struct
import weakref
from dataclasses import dataclass
from enum import IntEnum

from ..base.clock import poll_milliseconds
from .settings import TransportName

_LOCATION = struct.Struct(">16s16sB31x")
LOCATION_BYTES = _LOCATION.size
_TRANSPORTS: tuple[TransportName, ...] = ("auto", "group", "nccl", "cuda_ipc")
CPU = bytes(16)

_REPLY = struct.Struct(">BQ247s")
REPLY_BYTES = _REPLY.size


class Reply(IntEnum):
    """Kind of a receiver's answer."""

    DONE = 1
    """The receiver has this transfer's bytes, which went beside the link."""
    REFUSED = 2
    """The receiver takes nothing any more; the reason follows as text."""
    BYE = 3


def pack_reply(kind: Reply, number: int = 0, text: str = "") -> bytes:
    """Encode an answer."""
    return _REPLY.pack(kind, number, text.encode()[:247])


def parse_reply(raw: bytes) -> tuple[int, int, str]:
    """Decode an answer to (kind, number, text)."""
    kind, number, text = _REPLY.unpack(raw)
    return kind, number, text.rstrip(b"\0").decode(errors="replace")


@dataclass(frozen=True)
class Location:
    """A machine, a device on it (zeros: its processors), and the transport that was asked for."""

    machine: bytes
    device: bytes
    asked: TransportName

    def pack(self) -> bytes:
        """Encode in `LOCATION_BYTES` bytes."""
        return _LOCATION.pack(self.machine, self.device, _TRANSPORTS.index(self.asked))

    @classmethod
    def unpack(cls, raw: bytes) -> "Location":
        """Decode; ValueError for a transport that is not known here."""
        fields: tuple[bytes, bytes, int] = _LOCATION.unpack(raw)
        machine, device, asked = fields
        if asked >= len(_TRANSPORTS):
            raise ValueError("it wants a transport that is not known here")
        return cls(machine, device, _TRANSPORTS[asked])


@dataclass(frozen=True)
class PeerInfo:
    """The rank at the other end of a link."""

    rank: int
    pid: int
    location: Location

    @property
    def role(self) -> str:
        """Name of the rank in errors."""
        return f"rank {self.rank}"


class Link:
    """Never blocks. A forked child's copy is closed at once, so that the peer sees an end."""

    def __init__(self, sock: socket.socket, peer: PeerInfo, session: bytes) -> None:
        self.sock, self.peer, self.session = sock, peer, session
        self.sock.setblocking(False)
        _links.add(self)

    def watch(self, peer_timeout: float) -> None:
        """Let the kernel detect a machine that answers nothing any more; send without delay."""
        if self.sock.family == socket.AF_UNIX:
            return  # both ends are this process's
        third = math.ceil(peer_timeout / 3)
        for option, value in (
            (socket.TCP_NODELAY, 1),
            (socket.TCP_KEEPIDLE, third),
            (socket.TCP_KEEPINTVL, third),
            (socket.TCP_KEEPCNT, 2),
            (socket.TCP_USER_TIMEOUT, int(peer_timeout * 1000)),
        ):
            self.sock.setsockopt(socket.IPPROTO_TCP, option, value)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def close(self) -> None:
        """Close the connection, even if a forked child holds a copy."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def ready(sock: socket.socket, events: int, seconds: float | None, *others: int) -> int:
    """Wait until the socket is ready, or one of the other descriptors can be read.

    Returns the events found at the socket, 0 for none.
    """
    poller = select.poll()
    poller.register(sock, events)
    for fd in others:
        poller.register(fd, select.POLLIN)
    found = dict(poller.poll(None if seconds is None else math.ceil(poll_milliseconds(seconds))))
    return found.get(sock.fileno(), 0)


_links: "weakref.WeakSet[Link]" = weakref.WeakSet()


def _after_fork() -> None:
    for link in list(_links):
        link.sock.close()


os.register_at_fork(after_in_child=_after_fork)
