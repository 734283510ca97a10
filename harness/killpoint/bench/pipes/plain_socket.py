"""The floor: the same bytes over a loopback connection, with nothing on top."""

from __future__ import annotations

import socket
import time
from typing import Any

_HEAD = 8
_AGAIN = 0.02
_WITHIN = 60.0


class SocketPipe:
    """The few calls of a target's adapter that are measured; two ranks, one connection."""

    def load(self) -> None:
        """Do nothing: there is nothing to import."""

    def pipe_make(
        self, rank: int, shape: Any, host: str, port: int, secret: bytes, timeout: float | None
    ) -> _End:
        """Rank 0 listens, rank 1 connects."""
        del shape, secret, timeout
        if rank:
            return _End(_connected(host, port))
        with socket.create_server((host, port)) as listener:
            listener.settimeout(_WITHIN)
            return _End(listener.accept()[0])

    def pipe_send(self, end: _End, tensor: Any | None, timeout: float | None) -> None:
        """Send the tensor's length, then its bytes."""
        del timeout
        data = memoryview(b"") if tensor is None else memoryview(tensor.numpy())
        end.sock.sendall(len(data).to_bytes(_HEAD, "big"))
        end.sock.sendall(data)

    def pipe_recv(self, end: _End, timeout: float | None) -> memoryview | None:
        """Into memory that it has: a view of it, valid until the next one."""
        del timeout
        end.fill(_HEAD)
        nbytes = int.from_bytes(end.memory[:_HEAD], "big")
        return end.fill(nbytes) if nbytes else None

    def pipe_close(self, end: _End, timeout: float | None) -> None:
        """Hang up."""
        del timeout
        end.sock.close()


class _End:
    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.memory = memoryview(bytearray(_HEAD))

    def fill(self, nbytes: int) -> memoryview:
        """Receive as many."""
        if len(self.memory) < nbytes:
            self.memory = memoryview(bytearray(nbytes))
        have = 0
        while have < nbytes:
            more = self.sock.recv_into(self.memory[have:nbytes])
            if not more:
                raise EOFError("the other end hung up")
            have += more
        return self.memory[:nbytes]


def _connected(host: str, port: int) -> socket.socket:
    deadline = time.monotonic() + _WITHIN
    while True:
        try:
            return socket.create_connection((host, port), _WITHIN)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN)  # the other one is being forked
