"""Two ranks connect: each proves that it knows the key, before anything else (SPEC S3, S4).

Four messages of fixed size: hello, welcome (the server's proof), proof (the client's), verdict.
Every proof covers both fresh nonces and all messages so far, so none can be used again, and none
can be turned around. `ClientHandshake` and `ServerHandshake` are the two halves, without I/O;
`connect_to_server` and `HandshakeServer` own the sockets. An unauthenticated peer is served for a
bounded time, in bounded memory.
"""

import hmac
import os
import secrets
import select
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ..base.cleanup import ReleaseStack, append_atomically
from ..base.clock import Clock, poll_milliseconds
from ..base.security import Keys, SocketFactory
from .link import LOCATION_BYTES, Link, Location, PeerInfo
from .transports.select import agreed_transport

CONTROL = 0xFFFFFFFF
"""In place of a link's number: the connection by which each rank finds the others, at rank 0."""

_NONCE_BYTES = 32
_PROOF_BYTES = 32
_MAGIC = b"RKH1"
_HELLO = struct.Struct(f">4sIIII{_NONCE_BYTES}s{LOCATION_BYTES}s")
_WELCOME = struct.Struct(f">I{_NONCE_BYTES}s{LOCATION_BYTES}s")
_VERDICT = struct.Struct(">B255s")

HELLO_BYTES = _HELLO.size
WELCOME_BYTES = _WELCOME.size + _PROOF_BYTES
PROOF_BYTES = _PROOF_BYTES
VERDICT_BYTES = _VERDICT.size


@dataclass(frozen=True)
class ClientInfo:
    """Contents of a hello: the client's rank, the link that it wants, its tensors' location."""

    rank: int
    size: int
    link: int
    """Rank that sends over the link, or CONTROL."""
    pid: int
    location: Location


class ClientHandshake:
    """The client's half."""

    def __init__(self, keys: Keys, me: ClientInfo) -> None:
        self._keys = keys
        nonce = secrets.token_bytes(_NONCE_BYTES)
        self.hello = _HELLO.pack(
            _MAGIC, me.rank, me.size, me.link, me.pid, nonce, me.location.pack()
        )
        self._said = b""
        self.pid, self.location = 0, me.location

    def proof(self, welcome: bytes) -> bytes | None:
        """Return the answer to a welcome; None if its sender does not know the key."""
        fields, theirs = welcome[: _WELCOME.size], welcome[_WELCOME.size :]
        self._said = self.hello + fields
        if not hmac.compare_digest(theirs, _digest(self._keys, b"listens", self._said)):
            return None
        self.pid, _, location = _WELCOME.unpack(fields)
        self.location = Location.unpack(location)
        return _digest(self._keys, b"connects", self._said)

    @property
    def session(self) -> bytes:
        """Key that only these two ranks have, for this connection."""
        return _digest(self._keys, b"session", self._said)


class ServerHandshake:
    """The server's half, for one connection."""

    def __init__(self, keys: Keys, pid: int, location: Location) -> None:
        self._keys, self._pid, self._location = keys, pid, location
        self._said = b""
        self.client: ClientInfo | None = None

    def welcome(self, hello: bytes) -> bytes | None:
        """Return the answer to a hello; None if it is none."""
        magic, rank, size, link, pid, _, location = _HELLO.unpack(hello)
        if magic != _MAGIC:
            return None
        try:
            self.client = ClientInfo(rank, size, link, pid, Location.unpack(location))
        except ValueError:
            return None
        nonce = secrets.token_bytes(_NONCE_BYTES)
        mine = _WELCOME.pack(self._pid, nonce, self._location.pack())
        self._said = hello + mine
        return mine + _digest(self._keys, b"listens", self._said)

    def proves(self, proof: bytes) -> bool:
        """Return whether the client knows the key."""
        return hmac.compare_digest(proof, _digest(self._keys, b"connects", self._said))

    @property
    def session(self) -> bytes:
        """Key that only these two ranks have, for this connection."""
        return _digest(self._keys, b"session", self._said)


def pack_verdict(reason: str = "") -> bytes:
    """Encode the server's last message: a reason is a refusal."""
    return _VERDICT.pack(bool(reason), reason.encode()[:255])


def parse_verdict(said: bytes) -> str:
    """Return the reason in a verdict; empty if the client was accepted."""
    refused, reason = _VERDICT.unpack(said)
    return reason.rstrip(b"\0").decode(errors="replace") or "no reason" if refused else ""


def _digest(keys: Keys, what: bytes, said: bytes) -> bytes:
    return hmac.digest(keys.secret, b"refengine pipe " + what + b"\0" + said, "sha256")


def connect_to_server(
    address: tuple[str, int],
    keys: Keys,
    me: ClientInfo,
    rank: int,
    left: Callable[[], float],
    sockets: SocketFactory,
) -> "Link | str":
    """Return a link to the server of `rank`, or the reason of its refusal.

    ConnectionError if no server listens, or one without the key; TimeoutError if no answer came
    in time.
    """
    undo = ReleaseStack()
    try:
        sock = undo.acquire(socket.socket.close, sockets.connect_tcp, *address, left())
        handshake = ClientHandshake(keys, me)
        sock.sendall(handshake.hello)  # small and first, as the proof: there is room for both
        proof = handshake.proof(read_exactly(sock, WELCOME_BYTES, left))
        if proof is None:
            raise ConnectionError("whoever listens there does not know the key")
        sock.sendall(proof)
        reason = parse_verdict(read_exactly(sock, VERDICT_BYTES, left))
        if not reason:
            return Link(sock, PeerInfo(rank, handshake.pid, handshake.location), handshake.session)
    except BaseException:
        undo.close()
        raise
    undo.close()
    return reason


def read_exactly(sock: socket.socket, count: int, left: Callable[[], float]) -> bytes:
    """Read so many bytes; ConnectionError if the connection ends before."""
    heard = b""
    while len(heard) < count:
        sock.settimeout(left())
        more = sock.recv(count - len(heard))
        if not more:
            raise ConnectionError("it hung up")
        heard += more
    return heard


_PENDING_MOST = 64
Expected = tuple[int, int]
"""Rank, and the link (or CONTROL) that it is to connect."""


@dataclass
class _UnauthenticatedPeer:
    """A connection that has not proved anything yet."""

    sock: socket.socket
    since: float
    handshake: ServerHandshake
    received: list[bytes] = field(default_factory=lambda: list[bytes]())
    welcomed: bool = False


class HandshakeServer:
    """Listens at one address, for the clients that are `expected` and no others."""

    def __init__(
        self,
        host: str,
        port: int,
        keys: Keys,
        size: int,
        location: Location,
        expected: set[Expected],
        *,
        handshake_timeout: float,
        sockets: SocketFactory,
        clock: Clock,
    ) -> None:
        self._keys, self._size, self._location = keys, size, location
        self._handshake_timeout, self._clock = handshake_timeout, clock
        self._connections: deque[_UnauthenticatedPeer] = deque()
        self._accepted: list[tuple[socket.socket, object]] = []
        self.expected = expected
        self.connected: dict[Expected, Link] = {}
        self._listener = sockets.listen_tcp(host, port)  # last: nothing after it can fail

    @property
    def port(self) -> int:
        """Port at which it listens."""
        return self._listener.getsockname()[1]

    @property
    def missing(self) -> set[Expected]:
        """Links that are expected and not connected yet."""
        return self.expected - self.connected.keys()

    def wait(self, seconds: float | None, *others: int) -> None:
        """Serve one round; return early if one of the other descriptors hangs up."""
        poller = select.poll()
        for fd in (self._listener.fileno(), *(s.sock.fileno() for s in self._connections)):
            poller.register(fd, select.POLLIN)
        for fd in others:
            poller.register(fd, select.POLLRDHUP)
        soon = [seconds] if seconds is not None else []
        if self._connections:
            soon.append(self._connections[0].since + self._handshake_timeout - self._clock())
        poller.poll(int(poll_milliseconds(min(soon))) + 1 if soon else None)
        self._accept()
        for connection in list(self._connections):
            if not self._hear(connection):
                self._connections.remove(connection)

    def close(self) -> None:
        """Stop listening; connected links stay."""
        self._listener.close()
        for connection in self._connections:
            connection.sock.close()
        while self._accepted:
            self._accepted.pop()[0].close()

    def drop(self) -> None:
        """Close the connected links, too."""
        self.close()
        for link in self.connected.values():
            link.close()

    def _accept(self) -> None:
        while True:
            if len(self._connections) >= _PENDING_MOST:
                self._connections[0].sock.close()  # the oldest
                self._connections.popleft()
            try:
                append_atomically(self._accepted, self._listener.accept)
            except (BlockingIOError, ConnectionAbortedError):
                return
            sock, _ = self._accepted[0]
            sock.setblocking(False)
            handshake = ServerHandshake(self._keys, os.getpid(), self._location)
            self._connections.append(_UnauthenticatedPeer(sock, self._clock(), handshake))
            self._accepted.clear()

    def _hear(self, connection: _UnauthenticatedPeer) -> bool:
        """Read from a connection; return whether it is still unauthenticated."""
        wanted = PROOF_BYTES if connection.welcomed else HELLO_BYTES
        have = sum(map(len, connection.received))
        try:
            append_atomically(connection.received, connection.sock.recv, wanted - have)
        except BlockingIOError:
            if self._clock() < connection.since + self._handshake_timeout:
                return True
            connection.sock.close()
            return False
        except OSError:
            connection.received.append(b"")
        said = b"".join(connection.received)
        if not connection.received[-1]:
            connection.sock.close()
            return False
        if len(said) < wanted:
            return True
        connection.received.clear()
        return self._judge(connection, said)

    def _judge(self, connection: _UnauthenticatedPeer, said: bytes) -> bool:
        if not connection.welcomed:
            welcome = connection.handshake.welcome(said)
            connection.welcomed = welcome is not None and _send_whole(connection.sock, welcome)
            if not connection.welcomed:
                connection.sock.close()
            return connection.welcomed
        client = connection.handshake.client
        if client is None or not connection.handshake.proves(said):
            connection.sock.close()
            return False
        reason = self._objection(client)
        if _send_whole(connection.sock, pack_verdict(reason)) and not reason:
            peer = PeerInfo(client.rank, client.pid, client.location)
            link = Link(connection.sock, peer, connection.handshake.session)
            self.connected[client.rank, client.link] = link
        else:
            connection.sock.close()
        return False

    def _objection(self, client: ClientInfo) -> str:
        who = client.rank, client.link
        if client.size != self._size:
            return f"it says that there are {client.size} ranks, here are {self._size}"
        if who in self.connected:
            return "another party already has it"
        if who not in self.expected:
            return "unknown here"
        try:
            agreed_transport(client.location, self._location)
        except ValueError as error:
            return str(error)
        return ""


def _send_whole(sock: socket.socket, what: bytes) -> bool:
    """Send a message small enough, and early enough, for the kernel to have room for it."""
    try:
        return sock.send(what) == len(what)
    except OSError:
        return False
