"""The same pipe, broken on purpose, one fault a class: the harness must catch each of them."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import TYPE_CHECKING, Any

from socket_tensors import Outgoing, PeerGone, Pipe, TensorTarget, meet, read

if TYPE_CHECKING:
    from killpoint.targets.protocol import PipeShape

CAUGHT = {
    "ReadsTheStorage": ("K1/every-dtype-and-layout", "wrong-data"),
    "DropsNone": ("K1/large-and-none", "lost"),
    "LargeOnesLast": ("K1/large-and-none", "reordered lost"),
    "NeverEmpty": ("K2/empty-after-every-tensor", "leak"),
    "TooLargeForEver": ("K2/larger-than-the-limit", "hang"),
    "NeverFull": ("K2/memory-is-bounded", "growth"),
    "LosesTheError": ("K2/send-fails-once", "hang"),
    "TellsNoSender": ("K3/send-fails-once", "no-error"),
    "TellsNoTaker": ("K3/first-send-fails", "hang no-error"),
    "WaitsForTheDead": ("K4/first-killed-while-the-other-waits", "hang"),
    "TakesItsTime": ("K4/second-killed-while-the-other-waits", "late"),
    "SendsToTheDead": ("K4/one-of-three-killed", "no-error"),
    "SendsWhatItFinds": ("K5/overwritten-before-it-is-taken", "wrong-data"),
    "BelievesTheShape": ("K6/fewer-bytes-than-told", "wrong-data"),
    "OneThreadForAll": ("K7/both-receive-first", "hang"),
}
"""The case that convicts each, and of what: of one of these kinds."""


class ReadsTheStorage(Pipe):
    """A view goes out as the bytes behind it, whatever its strides."""

    def taken(self, tensor: Any) -> bytes:
        count = tensor.numel() * tensor.element_size()
        return bytes(tensor.detach().untyped_storage())[:count].ljust(count, b"\0")


class DropsNone(Pipe):
    """None never leaves."""

    def send(self, tensor: Any | None, timeout: float) -> None:
        if tensor is not None:
            super().send(tensor, timeout)


class LargeOnesLast(Pipe):
    """What is large waits until something small was sent."""

    kept: tuple[Any, ...] = ()

    def send(self, tensor: Any | None, timeout: float) -> None:
        if tensor is not None and not self.kept and tensor.numel() > 100:
            self.kept = (tensor,)
            return
        super().send(tensor, timeout)
        for each in self.kept:
            super().send(each, timeout)
        self.kept = ()

    def close(self, timeout: float) -> None:
        for each in self.kept:
            super().send(each, timeout)
        super().close(timeout)


class _Adds(Outgoing):
    def carry(self, about: bytes, payload: bytes) -> None:
        super().carry(about, payload)
        self.buffered += 1


class NeverEmpty(Pipe):
    """Every tensor leaves a byte in the account."""

    outgoing = _Adds


class _Strict(Outgoing):
    def has_room(self, size: int) -> bool:
        return bool(self.error) or self.buffered + size <= self._limit


class TooLargeForEver(Pipe):
    """What is larger than the limit never has room."""

    outgoing = _Strict


class _Boundless(Outgoing):
    def has_room(self, size: int) -> bool:
        return True


class NeverFull(Pipe):
    """There is no limit."""

    outgoing = _Boundless


class _Lost(Outgoing):
    """Looks at what it is given in its thread; what fails there is nobody's."""

    def carry(self, about: bytes, payload: bytes) -> None:
        if bytes(payload[:4]) == b"bad!":
            payload.release()  # pyright: ignore[reportAttributeAccessIssue]  # no such thing
        super().carry(about, payload)

    def fail(self, error: BaseException) -> None:
        select.select([], [], [])


class _Unread(Pipe):
    def taken(self, tensor: Any) -> bytes:
        if tensor.device.type == "meta":
            return b"bad!".ljust(tensor.numel() * tensor.element_size())
        return super().taken(tensor)


class LosesTheError(_Unread):
    """A send that fails ends the thread, and leaves its bytes in the account."""

    outgoing = _Lost


class _ToldNobody(_Lost):
    def fail(self, error: BaseException) -> None:
        with self._changed:
            self.buffered = 0
            self._todo.clear()
            self._ending = True

    def check(self) -> None:
        """Nobody is told."""


class TellsNoSender(_Unread):
    """A send that fails breaks the connection; its sender may go on for ever."""

    outgoing = _ToldNobody


class _KeepsTheLine(_Lost):
    def fail(self, error: BaseException) -> None:
        with self._changed:
            self.error, self.buffered = error, 0
            self._changed.notify_all()
        select.select([], [], [])


class TellsNoTaker(_Unread):
    """A send that fails is told to the sender; the taker waits on a connection that stays."""

    outgoing = _KeepsTheLine

    def close(self, timeout: float) -> None:
        self.out.check()


class WaitsForTheDead(Pipe):
    """A connection that ends is waited for."""

    def receive(self, timeout: float) -> Any:
        try:
            return super().receive(timeout)
        except PeerGone:
            select.select([], [], [], timeout)
            raise


class TakesItsTime(Pipe):
    """A connection that ends is told of some seconds later."""

    def receive(self, timeout: float) -> Any:
        try:
            return super().receive(timeout)
        except PeerGone:
            select.select([], [], [], 2.6)
            raise


class _Cheerful(Outgoing):
    def carry(self, about: bytes, payload: bytes) -> None:
        with contextlib.suppress(OSError):
            super().carry(about, payload)

    def fail(self, error: BaseException) -> None:
        """Nothing is ever wrong."""


class SendsToTheDead(Pipe):
    """What cannot be sent is dropped."""

    outgoing = _Cheerful


class SendsWhatItFinds(Pipe):
    """Nothing is copied: what goes out is what is there when its turn comes."""

    def taken(self, tensor: Any) -> Any:
        import torch

        if not tensor.is_contiguous() or not tensor.numel() or tensor.is_conj():
            return super().taken(tensor)
        return memoryview(tensor.detach().reshape(-1).view(torch.uint8).numpy())


class BelievesTheShape(Pipe):
    """A tensor has the shape that was told, whatever follows."""

    def made(self, about: Any, size: int) -> Any:
        import torch

        if about is None or about["shape"] != [64]:
            return super().made(about, size)
        raw = read(self._into, size).ljust(64 * 4, b"\0")
        return torch.frombuffer(raw, dtype=torch.float32)


class OneThreadForAll(Pipe):
    """Whoever waits for a tensor keeps every other call out."""

    def __init__(self, out: socket.socket, into: socket.socket, limit: int) -> None:
        super().__init__(out, into, limit)
        self._turn = threading.Lock()

    def send(self, tensor: Any | None, timeout: float) -> None:
        with self._turn:
            super().send(tensor, timeout)

    def receive(self, timeout: float) -> Any:
        with self._turn:
            return super().receive(timeout)


class BrokenTarget(TensorTarget):
    """Any of them: the one that the shape's transport names; none if it names none."""

    name = "broken_tensors"

    def pipe_make(
        self,
        rank: int,
        shape: PipeShape,
        host: str,
        port: int,
        secret: bytes,
        timeout: float | None,
    ) -> Pipe:
        import time

        end = time.monotonic() + (20.0 if timeout is None else timeout)
        kind: type[Pipe] = globals()[shape.transport] if shape.transport else Pipe
        return kind(*meet(rank, shape.size, (host, port), end), shape.buffer_bytes)
