"""Who may take part: keys that never show, and the one place sockets come from (SPEC 9)."""

import hmac
import secrets
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path

import zmq


@dataclass(frozen=True)
class Keys:
    """A queue's shared secret; it travels in the handle and nowhere else (SPEC S3)."""

    secret: bytes = field(repr=False)

    @classmethod
    def fresh(cls) -> "Keys":
        """A new random secret."""
        return cls(secrets.token_bytes(32))

    def match(self, offered: bytes) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(self.secret, offered)


class SocketFactory:
    """Makes every socket of a queue: the seam for simulated ones, and the bind policy.

    Local parties meet on AF_UNIX paths inside a 0700 directory. TCP (remote readers, the
    next step) will bind only to the address asked for.
    """

    def context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        """A ZeroMQ context of its own, so that its end waits for nobody else's sockets."""
        return zmq.Context(io_threads=1)

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


_CREDENTIALS = struct.Struct("3i")


def peer_of(link: socket.socket) -> tuple[int, int]:
    """(pid, uid) of the process at the other end, as the kernel knows it."""
    raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid
