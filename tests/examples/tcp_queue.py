"""A queue whose readers are all remote: one TCP connection each, and nothing besides.

It trusts TCP: what a reset destroys is lost, and a party that falls silent is waited for. That is
what makes it a good subject for a relay.
"""

from __future__ import annotations

import pickle
import select
import socket
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from killpoint.targets.protocol import Capability, Outcome, QueueShape


class Gone(Exception):
    """The other side has closed, or was reset."""


class End:
    """One end: its connections, and at the writer the door."""

    def __init__(self, readers: int = 0, host: str = "") -> None:
        self.readers = readers
        self.lines: list[socket.socket] = []
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.door = socket.create_server((host, 0), family=family) if readers else None


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _wait(sock: socket.socket, timeout: float | None, *, to_write: bool = False) -> None:
    want = ([], [sock], []) if to_write else ([sock], [], [])
    if not any(select.select(*want, None if timeout is None else max(0.0, timeout))):
        raise TimeoutError


class TcpTarget:
    name = "tcp_queue"
    version = "1"
    capabilities: frozenset[Capability] = frozenset(("queue", "deadlines", "remote", "wire"))
    preloads: tuple[str, ...] = ()

    def load(self) -> None:
        """Nothing to import."""

    def make(self, shape: QueueShape) -> End:
        return End(shape.readers, shape.host)

    def handle(self, end: End) -> str:
        assert end.door
        return address(*end.door.getsockname()[:2])

    def addresses(self, handle: str) -> list[str]:
        return [handle]

    def rerouted(self, handle: str, table: dict[str, str]) -> str:
        return table.get(handle, handle)

    def secrets(self, handle: str) -> list[bytes]:
        return []

    def attach(self, handle: str, rank: int) -> End:
        host, _, port = handle.rpartition(":")
        end = End()
        end.lines = [socket.create_connection((host.strip("[]"), int(port)), 5.0)]
        return end

    def ready(self, end: End, timeout: float | None) -> None:
        while end.door and len(end.lines) < end.readers:
            _wait(end.door, timeout)
            end.lines.append(end.door.accept()[0])
        for line in end.lines:
            line.settimeout(None)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if end.door:
                line.sendall(b"!")
            else:
                _wait(line, timeout)
                assert line.recv(1) == b"!"

    def send(self, end: End, obj: Any, timeout: float | None) -> None:
        body = pickle.dumps(obj, protocol=5)
        deadline = None if timeout is None else time.monotonic() + timeout
        for line in end.lines:
            _wait(line, None if deadline is None else deadline - time.monotonic(), to_write=True)
            line.settimeout(timeout)
            line.sendall(len(body).to_bytes(8, "big") + body)

    def receive(self, end: End, timeout: float | None) -> Any:
        _wait(end.lines[0], timeout)
        return pickle.loads(self._exactly(end, int.from_bytes(self._exactly(end, 8), "big")))

    def _exactly(self, end: End, size: int) -> bytes:
        body = b""
        while len(body) < size:
            part = end.lines[0].recv(size - len(body))
            if not part:
                raise Gone
            body += part
        return body

    def close(self, end: End) -> None:
        for sock in [*end.lines, *([end.door] if end.door else [])]:
            sock.close()

    def classify(self, error: BaseException) -> Outcome:
        if isinstance(error, TimeoutError):
            return "timeout"
        return "peer-died" if isinstance(error, (Gone, ConnectionError)) else "error"
