"""Addresses of a coordinator, and the connections of a replica and a front end to it (SPEC 9).

Sockets are ipc paths that only their owner can open, or one TCP host's ports with keys.
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq

from ..base.clock import Clock, monotonic, poll_milliseconds
from ..base.frame_decoding import DropCounter, Malformed
from ..base.security import Keys, is_ipv6, limit_strangers
from . import protocol
from .protocol import Report, Scale, Start, State


@dataclass(frozen=True)
class BindAddress:
    """Place where the coordinator listens: a folder that only its owner can open, or a TCP host."""

    folder: str = ""
    host: str = ""
    keys: Keys | None = field(default=None, repr=False)

    def bind(self, context: "zmq.Context[Any]", kind: int, name: str) -> tuple[Any, str]:
        """Return a listening socket, and its address as bound."""
        socket = _socket(context, kind)
        try:
            if not self.host:
                path = Path(self.folder, name)
                socket.bind(f"ipc://{path}")
                path.chmod(0o600)
                return socket, f"ipc://{path}"
            if self.keys is None:
                raise ValueError("a coordinator that listens at a host needs keys")
            socket.curve_publickey, socket.curve_secretkey = self.keys.curve("listens")
            socket.curve_server = True
            v6 = is_ipv6(self.host)
            socket.setsockopt(zmq.IPV6, v6)
            limit_strangers(socket)
            socket.bind(f"tcp://[{self.host}]:*" if v6 else f"tcp://{self.host}:*")
            return socket, str(socket.LAST_ENDPOINT, "ascii").rstrip("\0")
        except BaseException:
            socket.close(linger=0)
            raise


@dataclass(frozen=True)
class Addresses:
    """Addresses by which replicas and front ends reach a coordinator; can be pickled."""

    states: str
    reports: str
    starts: str
    keys: Keys | None = field(default=None, repr=False)

    def connect(self, context: "zmq.Context[Any]", kind: int, address: str) -> Any:
        """Return a socket that connects, and goes on trying."""
        socket = _socket(context, kind)
        if self.keys is not None:
            socket.curve_serverkey, _ = self.keys.curve("listens")
            socket.curve_publickey, socket.curve_secretkey = self.keys.curve("connects")
        socket.setsockopt(zmq.IPV6, "[" in address)
        socket.setsockopt(zmq.RECONNECT_IVL, 50)
        socket.connect(address)
        return socket


def _socket(context: "zmq.Context[Any]", kind: int) -> Any:
    socket: Any = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    if kind == zmq.XPUB:
        socket.setsockopt(zmq.XPUB_VERBOSER, 1)  # every subscription and its end, equal ones too
    return socket


_log = logging.getLogger(__name__)


class _Link:
    """Receiving half of a link: the published messages, and the time of the last one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._context: zmq.Context[Any] = zmq.Context(io_threads=1)
        self.heard_at = clock()
        """Time of the last message of the coordinator; at first, of the link's making."""
        self._dropped = DropCounter(_log)

    def close(self) -> None:
        """Close the sockets without waiting for unsent messages."""
        self._context.destroy(linger=0)

    def silent_for(self) -> float:
        """Return the seconds since the last message of the coordinator."""
        return self._clock() - self.heard_at

    def _next(self, socket: Any, seconds: float) -> Start | State | None:
        until = self._clock() + max(0.0, seconds)
        while socket.poll(poll_milliseconds(until - self._clock())):
            frame = socket.recv_multipart()[-1]
            try:
                news = protocol.decode_published(frame)
            except Malformed:
                self._dropped.add("what came from the coordinator")
                continue
            self.heard_at = self._clock()
            return news
        return None


class EngineLink(_Link):
    """A replica's link. Send at least once a second: any report is a heartbeat."""

    def __init__(self, addresses: Addresses, rank: int, clock: Clock = monotonic) -> None:
        super().__init__(clock)
        self.rank = rank
        self._starts = addresses.connect(self._context, zmq.SUB, addresses.starts)
        self._starts.subscribe(protocol.ALL_REPLICAS)  # before the topic that shows the arrival
        self._starts.subscribe(protocol.topic_of(rank))
        self._reports = addresses.connect(self._context, zmq.PUSH, addresses.reports)

    def fileno(self) -> int:
        """Descriptor that becomes readable when messages may have come: call `hear` until None."""
        return self._starts.fileno()

    def send(self, reports: list[Report]) -> None:
        """Send the reports to the coordinator, in order."""
        for report in reports:
            self._reports.send(protocol.encode(report), zmq.NOBLOCK)

    def alive(self) -> None:
        """Send a heartbeat."""
        self.send([Report(self.rank)])

    def hear(self, seconds: float = 0.0) -> Start | State | None:
        """Return the coordinator's next message, or None if none comes within so many seconds."""
        return self._next(self._starts, seconds)


class FrontEndLink(_Link):
    """A front end's link."""

    def __init__(self, addresses: Addresses, clock: Clock = monotonic) -> None:
        super().__init__(clock)
        self._states = addresses.connect(self._context, zmq.XSUB, addresses.states)
        self._states.send(b"\1")

    def hear(self, seconds: float = 0.0) -> State | None:
        """Return the next state, or None if none comes within so many seconds."""
        found = self._next(self._states, seconds)
        return found if isinstance(found, State) else None

    def scale(self, engines: int) -> None:
        """Set the number of replicas from the next wave on."""
        self._states.send(protocol.encode(Scale(engines)))
