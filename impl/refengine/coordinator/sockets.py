"""Where parties meet: ipc paths of their owner's, or one TCP address with keys (SPEC 9)."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq

from ..security import Keys, is_ipv6, limit_strangers


@dataclass(frozen=True)
class Place:
    """Where the coordinator listens: a folder of the owner's alone, or a host."""

    folder: str = ""
    host: str = ""
    keys: Keys | None = field(default=None, repr=False)

    def bind(self, context: "zmq.Context[Any]", kind: int, name: str) -> tuple[Any, str]:
        """A listening socket, and its address as bound."""
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
    """What replicas and front ends need to reach a coordinator; it may be pickled."""

    states: str
    reports: str
    starts: str
    keys: Keys | None = field(default=None, repr=False)

    def connect(self, context: "zmq.Context[Any]", kind: int, address: str) -> Any:
        """A socket that connects, and goes on trying."""
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
