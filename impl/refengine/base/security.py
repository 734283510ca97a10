"""Keys, which never show, and the factory of every socket, with the bind policy (SPEC 9)."""

import hmac
import ipaddress
import secrets
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq
from zmq.utils import z85

from .cleanup import ReleaseStack
from .fds import ensure_fds_available

SECRET_BYTES = 32
_CONTEXT_TAKES = 12  # descriptors: its threads' epolls and mailboxes, and the first socket's


@dataclass(frozen=True)
class Keys:
    """A shared secret; it travels in the handle and nowhere else (SPEC S3).

    The CURVE keys of connections over TCP are derived from it, so that a party can prove that it
    has the secret, and a stranger cannot even complete a handshake.
    """

    secret: bytes = field(repr=False)

    @classmethod
    def fresh(cls) -> "Keys":
        """A new random secret."""
        return cls(secrets.token_bytes(SECRET_BYTES))

    @classmethod
    def from_secret(cls, secret: bytes) -> "Keys":
        """Keys that other parties hold, too; ValueError unless it has 32 bytes."""
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a key has {SECRET_BYTES} bytes, not {len(secret)}")
        return cls(bytes(secret))

    def match(self, offered: bytes) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(self.secret, offered)

    def curve(self, party: str) -> tuple[bytes, bytes]:
        """The (public, secret) CURVE key pair of the listening or the connecting `party`."""
        raw = hmac.digest(self.secret, b"refengine curve " + party.encode(), "sha256")
        private = z85.encode(raw)
        return zmq.curve_public(private), private


PIECE_BYTES = 64 << 10
"""Most bytes of a body in one frame to a party that listens by TCP; a longer one is split."""
MOST_FRAME_BYTES = PIECE_BYTES + 1024
"""Most bytes of a frame that such a party reads: a piece, and what encryption adds."""
_HANDSHAKE_WITHIN = 3.0


class SocketFactory:
    """Makes every socket of a queue: the seam for simulated ones, and the bind policy.

    Local parties meet on AF_UNIX paths inside a 0700 directory. TCP listens at the one address
    that was asked for, and only to parties with the key.
    """

    def context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        """Return a new ZeroMQ context, so that ending it waits for no other object's sockets."""
        ensure_fds_available(_CONTEXT_TAKES)
        return zmq.Context(io_threads=1)

    def server(
        self, context: "zmq.Context[Any]", host: str, port: int, keys: Keys, peer_timeout: float
    ) -> tuple[Any, str]:
        """Return a ROUTER that listens at exactly this address, and the address with its port."""
        socket = self._encrypted(context, zmq.ROUTER, peer_timeout)
        try:
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            socket.curve_publickey, socket.curve_secretkey = keys.curve("listens")
            socket.curve_server = True
            v6 = is_ipv6(host)
            socket.setsockopt(zmq.IPV6, v6)
            name = f"[{host}]" if v6 else host
            socket.bind(f"tcp://{name}:{port or '*'}")
            bound = str(socket.LAST_ENDPOINT, "ascii").rstrip("\0")
        except BaseException:
            socket.close(linger=0)
            raise
        return socket, f"tcp://{name}:{bound.rsplit(':', 1)[1]}"

    def client(
        self, context: "zmq.Context[Any]", address: str, keys: Keys, peer_timeout: float
    ) -> Any:
        """Return a DEALER that connects to such a ROUTER, and goes on trying."""
        socket = self._encrypted(context, zmq.DEALER, peer_timeout)
        socket.curve_serverkey, _ = keys.curve("listens")
        socket.curve_publickey, socket.curve_secretkey = keys.curve("connects")
        socket.setsockopt(zmq.IPV6, "[" in address)
        socket.setsockopt(zmq.RECONNECT_IVL, 50)
        socket.connect(address)
        return socket

    def _encrypted(self, context: "zmq.Context[Any]", kind: int, peer_timeout: float) -> Any:
        socket: Any = context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 0)  # bounded by what a session keeps
        socket.setsockopt(zmq.RCVHWM, 0)
        if kind == zmq.ROUTER:
            limit_strangers(socket)
        # libzmq's own thread asks and answers. It never gives up by itself: sessions do.
        socket.setsockopt(zmq.HEARTBEAT_IVL, max(20, int(peer_timeout * 100)))
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, int(peer_timeout * 20_000))
        return socket

    def listen(self, path: str) -> socket.socket:
        """A message-preserving local listener at `path`, its owner's alone (SPEC S2)."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(path)
            Path(path).chmod(0o600)
            listener.listen(256)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
        return listener

    def listen_tcp(self, host: str, port: int) -> socket.socket:
        """A TCP listener at exactly this address; 0 takes a free port."""
        undo = ReleaseStack()
        try:
            listener = undo.acquire(socket.socket.close, _tcp, host)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(256)
            listener.setblocking(False)
            return listener  # noqa: TRY300  an exception on the way out is one of those caught
        except BaseException:
            undo.close()
            raise

    def connect_tcp(self, host: str, port: int, seconds: float) -> socket.socket:
        """A connection to such a listener, made within that time."""
        undo = ReleaseStack()
        try:
            link = undo.acquire(socket.socket.close, _tcp, host)
            link.settimeout(seconds)
            link.connect((host, port))
            return link  # noqa: TRY300  an exception on the way out is one of those caught
        except BaseException:
            undo.close()
            raise

    def connect(self, path: str) -> socket.socket:
        """A connection to such a listener."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            link.connect(path)
            link.setblocking(False)
        except BaseException:
            link.close()
            raise
        return link


def _tcp(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if is_ipv6(host) else socket.AF_INET, socket.SOCK_STREAM)


def limit_strangers(socket: Any) -> None:
    """Limit what a peer that has proved nothing costs a listener; call before `bind` (SPEC S4).

    libzmq hangs up on a peer that declares more than `MOST_FRAME_BYTES`, from the first frame of a
    handshake on, and allocates nothing for what it refuses; and on a peer that has not ended a
    handshake within `_HANDSHAKE_WITHIN`. A peer that was too slow connects again.
    """
    socket.setsockopt(zmq.MAXMSGSIZE, MOST_FRAME_BYTES)
    socket.setsockopt(zmq.HANDSHAKE_IVL, int(_HANDSHAKE_WITHIN * 1000))


def destroy(context: "zmq.Context[Any]") -> None:
    """End a context with its sockets, even if something still refers to one of them."""
    context.destroy(linger=0)


def is_ipv6(host: str) -> bool:
    """Return whether this is an IPv6 address."""
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


_CREDENTIALS = struct.Struct("3i")


def peer_of(link: socket.socket) -> tuple[int, int]:
    """Return (pid, uid) of the process at the other end, as the kernel knows it."""
    raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid
