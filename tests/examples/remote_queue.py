"""A queue whose readers are all reached over TCP: safe as it stands, and exposed in five ways.

It is here to be judged: :class:`Safe` must hold S1 and S3, and each of the others breaks one
thing. One XPUB socket at the writer; a reader is there once its own subscription has come.
"""

from __future__ import annotations

import dataclasses
import pickle
import time
from typing import Any

import zmq

_GO = b"go"
_HERE = b"reader-"


@dataclasses.dataclass
class Handle:
    address: str
    public: bytes
    shared: bytes = dataclasses.field(repr=False)
    """The readers' secret key: the one key of this queue that must not be seen."""
    shared_public: bytes = b""


@dataclasses.dataclass
class OpenHandle(Handle):
    shared: bytes = b""  # declared anew: shown in the repr


class Writer:
    decodes = False

    def __init__(self, readers: int, host: str, *, keys: bool, wide: bool) -> None:
        self._missing = {_HERE + str(rank).encode() for rank in range(readers)}
        self._context = zmq.Context()
        self._sock = self._context.socket(zmq.XPUB)
        self._sock.setsockopt(zmq.IPV6, int(":" in host))
        self._sock.setsockopt(zmq.XPUB_VERBOSE, 1)
        self._sock.setsockopt(zmq.SNDHWM, 0)
        self._sock.setsockopt(zmq.LINGER, 1000)
        public, secret = zmq.curve_keypair() if keys else (b"", b"")
        shared_public, shared = zmq.curve_keypair() if keys else (b"", b"")
        if keys:
            self._sock.setsockopt(zmq.CURVE_SERVER, 1)
            self._sock.setsockopt(zmq.CURVE_SECRETKEY, secret)
        place = f"[{host}]" if ":" in host else host
        port = self._sock.bind_to_random_port("tcp://*" if wide else f"tcp://{place}")
        self.handle = Handle(f"tcp://{place}:{port}", public, shared, shared_public)

    def ready(self, timeout: float | None) -> None:
        deadline = _deadline(timeout)
        while self._missing:
            _wait(self._sock, deadline)
            self._hear()
        self._sock.send(_GO)

    def send(self, obj: Any, _timeout: float | None) -> None:
        self._hear()
        self._sock.send(pickle.dumps(obj, 5))

    def _hear(self) -> None:
        while self._sock.poll(0):
            frame = self._sock.recv_multipart()[-1]
            self._missing.discard(frame[1:])
            if self.decodes and frame[:1] == b"\x80":
                pickle.loads(frame)

    def close(self) -> None:
        self._sock.close()
        self._context.term()


class Unpickler(Writer):
    decodes = True


class Reader:
    def __init__(self, handle: Handle, rank: int) -> None:
        self._context = zmq.Context()
        self._sock = self._context.socket(zmq.SUB)
        self._sock.setsockopt(zmq.IPV6, int("[" in handle.address))
        self._sock.setsockopt(zmq.RCVHWM, 0)
        if handle.public:
            self._sock.setsockopt(zmq.CURVE_SERVERKEY, handle.public)
            self._sock.setsockopt(zmq.CURVE_PUBLICKEY, handle.shared_public)
            self._sock.setsockopt(zmq.CURVE_SECRETKEY, handle.shared)
        self._sock.setsockopt(zmq.SUBSCRIBE, b"")
        self._sock.setsockopt(zmq.SUBSCRIBE, _HERE + str(rank).encode())
        self._sock.connect(handle.address)

    def ready(self, timeout: float | None) -> None:
        assert self._take(timeout) == _GO

    def receive(self, timeout: float | None) -> Any:
        return pickle.loads(self._take(timeout))

    def _take(self, timeout: float | None) -> bytes:
        _wait(self._sock, _deadline(timeout))
        return self._sock.recv()

    def close(self) -> None:
        self._sock.close(0)
        self._context.term()


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + max(0.0, timeout)


def _wait(sock: Any, deadline: float | None) -> None:
    left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
    if not sock.poll(left):
        raise TimeoutError("nothing came by the deadline")


class Safe:
    """The adapter of the whole queue: keys, and the address that was asked for."""

    name = "remote_queue"
    version = "safe"
    capabilities = frozenset(("queue", "deadlines", "remote", "wire"))
    preloads = ("zmq",)
    writer: type[Writer] = Writer
    keys, wide = True, False

    def load(self) -> None:
        """Importing this module has done it."""

    def make(self, shape: Any) -> Writer:
        return self.writer(shape.readers, shape.host, keys=self.keys, wide=self.wide)

    def handle(self, end: Writer) -> Handle:
        return end.handle

    def attach(self, handle: Handle, rank: int) -> Reader:
        return Reader(handle, rank)

    def ready(self, end: Any, timeout: float | None) -> None:
        end.ready(timeout)

    def send(self, end: Writer, obj: Any, timeout: float | None) -> None:
        end.send(obj, timeout)

    def receive(self, end: Reader, timeout: float | None) -> Any:
        return end.receive(timeout)

    def close(self, end: Any) -> None:
        end.close()

    def classify(self, error: BaseException) -> str:
        return "timeout" if isinstance(error, TimeoutError) else "error"

    def addresses(self, handle: Handle) -> list[str]:
        return [handle.address.removeprefix("tcp://")]

    def rerouted(self, handle: Handle, table: dict[str, str]) -> Handle:
        there = table.get(handle.address.removeprefix("tcp://"))
        return handle if there is None else dataclasses.replace(handle, address=f"tcp://{there}")

    def secrets(self, handle: Handle) -> list[bytes]:
        return [handle.shared] if handle.shared else []


class Plain(Safe):
    """No keys: whoever subscribes is given everything."""

    keys = False


class Wide(Safe):
    """Listens on all addresses, whatever it was asked for."""

    wide = True


class Decodes(Plain):
    """Decodes what comes up the line, whoever sent it."""

    writer = Unpickler


class Shows(Safe):
    """Its handle shows the key."""

    def handle(self, end: Writer) -> Handle:
        return OpenHandle(**dataclasses.asdict(end.handle))


class Logs(Safe):
    """Writes the key to standard error."""

    def attach(self, handle: Handle, rank: int) -> Reader:
        import sys

        print("attached with", handle.shared.hex(), file=sys.stderr, flush=True)
        return Reader(handle, rank)
