"""A pipe of tensors over plain sockets: each rank has a connection to the next one.

It is here to be judged (docs/targets.md), and knows nothing of who judges it. Rank 0 tells all
where the others listen. A thread sends, callers receive by themselves. What a thread cannot send
breaks the connection without a goodbye: so the taker is told, and the sender at its next call.
"""

from __future__ import annotations

import contextlib
import json
import math
import select
import socket
import struct
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType

    from killpoint.targets.protocol import Capability, Outcome, PipeShape

_HEAD = struct.Struct("!cIQ")
"""What it is, bytes of its description, bytes of its payload."""
_TENSOR, _BYE = b"t", b"b"
_LARGEST, _DIMENSIONS = 1 << 36, 16
_DEFAULT, _LINGER = 20.0, 4.0
_DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"),
    *("float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
)


class PeerGone(Exception):
    """The rank before, or the next one, has died."""


class Refused(Exception):
    """What was said of a tensor cannot be so."""


class Left(Exception):
    """The rank before has closed its end."""


def read(sock: socket.socket, size: int) -> bytearray:
    whole = bytearray(size)
    view = memoryview(whole)
    while view:
        count = sock.recv_into(view)
        if not count:
            raise PeerGone("it ended without a goodbye")
        view = view[count:]
    return whole


class Outgoing:
    """The sending half: a thread, what it is still to send, and how many bytes those are."""

    def __init__(self, sock: socket.socket, limit: int) -> None:
        self._sock, self._limit = sock, limit
        self.buffered = 0
        self._todo: deque[tuple[bytes, bytes]] = deque()
        self._changed = threading.Condition()
        self._ending = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._todo or self._ending)
                    if not self._todo:
                        break
                    about, payload = self._todo.popleft()
                self.carry(about, payload)
                size = len(payload)
                del payload  # gone before the next one may take its place
                with self._changed:
                    self.buffered -= size
                    self._changed.notify_all()
            self._sock.sendall(_HEAD.pack(_BYE, 0, 0))
        except BaseException as error:
            self.fail(error)
        finally:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)

    def carry(self, about: bytes, payload: bytes) -> None:
        self._sock.sendall(_HEAD.pack(_TENSOR, len(about), len(payload)) + about)
        self._sock.sendall(payload)

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self.error, self.buffered = error, 0
            self._todo.clear()
            self._changed.notify_all()

    def send(self, about: bytes, payload: bytes, timeout: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self.has_room(len(payload)), timeout):
                raise TimeoutError("the buffer stayed full")
            self.check()
            self.buffered += len(payload)
            self._todo.append((about, payload))
            self._changed.notify_all()

    def has_room(self, size: int) -> bool:
        return bool(self.error) or not self.buffered or self.buffered + size <= self._limit

    def check(self) -> None:
        if self.error is not None:
            raise PeerGone(f"sending has failed: {self.error}") from self.error

    def close(self, timeout: float) -> None:
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(timeout)
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(_LINGER)
        self._sock.close()
        self.check()


class Pipe:
    """One rank's end."""

    outgoing: type[Outgoing] = Outgoing

    def __init__(self, out: socket.socket, into: socket.socket, limit: int) -> None:
        for sock in (out, into):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.out, self._into = self.outgoing(out, limit), into
        self._left = False

    def send(self, tensor: Any | None, timeout: float) -> None:
        if tensor is None:
            self.out.send(b"null", b"", timeout)
            return
        dtype = str(tensor.dtype).removeprefix("torch.")
        about = {"dtype": dtype, "shape": list(tensor.shape)}
        self.out.send(json.dumps(about).encode(), self.taken(tensor), timeout)

    def taken(self, tensor: Any) -> bytes:
        """The bytes as they are now."""
        import torch

        whole = tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous()
        return whole.reshape(-1).view(torch.uint8).numpy().tobytes() if whole.numel() else b""

    def receive(self, timeout: float) -> Any:
        if not select.select([self._into], [], [], timeout)[0]:
            raise TimeoutError("no tensor came")
        try:
            what, described, size = _HEAD.unpack(read(self._into, _HEAD.size))
            if what == _BYE:
                self._left = True
            if self._left:
                raise Left("the rank before has closed its end")
            about = json.loads(read(self._into, described))
            return self.made(about, size)
        except OSError as error:
            raise PeerGone(f"receiving has failed: {error}") from error

    def made(self, about: Any, size: int) -> Any:
        import torch

        if about is None:
            return None
        dtype, shape = self.checked(about, size)
        raw = read(self._into, size)
        if not size:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(raw, dtype=torch.uint8).view(dtype).reshape(shape)

    def checked(self, about: Any, size: int) -> tuple[Any, list[int]]:
        import torch

        shape = about["shape"]
        if about["dtype"] not in _DTYPES or len(shape) > _DIMENSIONS or min(shape, default=0) < 0:
            raise Refused(f"a tensor like {about} cannot be")
        dtype = getattr(torch, about["dtype"])
        if size > _LARGEST or math.prod(shape) * dtype.itemsize != size:
            raise Refused(f"a tensor like {about} does not have {size} bytes")
        return dtype, shape

    def close(self, timeout: float) -> None:
        try:
            self.out.close(timeout)
        finally:
            self._into.close()


def meet(rank: int, size: int, address: tuple[str, int], end: float) -> tuple[Any, Any]:
    """Connections to the next rank, and from the one before."""
    with socket.create_server((address[0], 0)) as door:
        ports = {rank: door.getsockname()[1]}
        if rank == 0:
            _host(address, size, ports, end)
        else:
            ports = _guest(address, rank, ports[rank], end)
        out = socket.create_connection((address[0], ports[(rank + 1) % size]))
        door.settimeout(max(0.01, end - time.monotonic()))
        into = door.accept()[0]
        into.setblocking(True)
        return out, into


def _host(address: tuple[str, int], size: int, ports: dict[int, int], end: float) -> None:
    with socket.create_server(address) as door, contextlib.ExitStack() as guests:
        came: list[socket.socket] = []
        while len(ports) < size:
            door.settimeout(max(0.01, end - time.monotonic()))
            guest = guests.enter_context(door.accept()[0])
            guest.settimeout(max(0.01, end - time.monotonic()))
            rank, port = struct.unpack("!HH", read(guest, 4))
            ports[rank] = port
            came.append(guest)
        for guest in came:
            guest.sendall(struct.pack(f"!{size}H", *(ports[each] for each in range(size))))


def _guest(address: tuple[str, int], rank: int, port: int, end: float) -> dict[int, int]:
    while True:
        try:
            host = socket.create_connection(address)
            break
        except ConnectionRefusedError as error:
            if time.monotonic() > end:
                raise TimeoutError("rank 0 did not come") from error
            select.select([], [], [], 0.01)
    with host:
        host.settimeout(max(0.01, end - time.monotonic()))
        host.sendall(struct.pack("!HH", rank, port))
        told = bytearray()
        while chunk := host.recv(4096):
            told += chunk
    if not told:
        raise PeerGone("rank 0 ended without a word")
    return dict(enumerate(struct.unpack(f"!{len(told) // 2}H", told)))


class TensorTarget:
    """What killpoint is given: the five calls of a pipe, the lies it can tell, four facts."""

    name = "socket_tensors"
    version = "1"
    capabilities: frozenset[Capability] = frozenset(("pipe", "points"))
    preloads: tuple[str, ...] = ("torch",)
    pipe: type[Pipe] = Pipe

    def load(self) -> None:
        """Importing this module has done it."""

    def pipe_make(
        self,
        rank: int,
        shape: PipeShape,
        host: str,
        port: int,
        secret: bytes,
        timeout: float | None,
    ) -> Pipe:
        end = time.monotonic() + (_DEFAULT if timeout is None else timeout)
        return self.pipe(*meet(rank, shape.size, (host, port), end), shape.buffer_bytes)

    def pipe_send(self, end: Pipe, tensor: Any | None, timeout: float | None) -> None:
        end.send(tensor, _DEFAULT if timeout is None else timeout)

    def pipe_recv(self, end: Pipe, timeout: float | None) -> Any:
        return end.receive(_DEFAULT if timeout is None else timeout)

    def pipe_buffered(self, end: Pipe) -> int:
        return end.out.buffered

    def pipe_close(self, end: Pipe, timeout: float | None) -> None:
        end.close(_LINGER if timeout is None else timeout)

    def pipe_forge(self, end: Pipe, lie: str) -> None:
        shape, payload = {
            "dtype": ([4], 16),
            "negative": ([-4, 4], 0),
            "dimensions": ([1] * 200, 4),
            "overflow": ([1 << 40, 1 << 40], 0),
            "huge": ([1 << 42], 1 << 44),
            "mismatch": ([64], 4),
        }[lie]
        about = json.dumps({"dtype": "no" if lie == "dtype" else "float32", "shape": shape})
        sock: socket.socket = end.out._sock
        sock.sendall(_HEAD.pack(_TENSOR, len(about), payload) + about.encode())
        if payload < 1 << 20:
            sock.sendall(bytes(payload))

    def classify(self, error: BaseException) -> Outcome:
        if isinstance(error, TimeoutError):
            return "timeout"
        if isinstance(error, (Refused, Left)):
            return "refused" if isinstance(error, Refused) else "closed"
        return "peer-died" if isinstance(error, PeerGone) else "error"

    def is_own_code(self, code: CodeType) -> bool:
        return code.co_filename == __file__
