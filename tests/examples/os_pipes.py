"""A queue of plain pipes: one for each reader, and a message is its length and its pickle.

The kernel holds what was written, so that it outlives the writer, and a pipe without a writer ends.
A pipe holds 64 KiB: a larger message leaves in parts, as fast as its reader reads. A send that is
given up half-way keeps the rest, which the next call sends first: a pipe takes nothing back.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import struct
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType

    from killpoint.targets.protocol import Capability, Outcome, QueueShape

_LENGTH = struct.Struct("!Q")
_GOODBYE = memoryview(bytes(_LENGTH.size))  # a length that no pickle has


class Closed(Exception):
    """The other side closed its end, and was not killed."""


class Writer:
    def __init__(self, readers: int) -> None:
        self.pipes = [os.pipe() for _ in range(readers)]
        self.back = os.pipe()  # where readers say that they have come
        self.unsent = [memoryview(b"")] * readers
        for fd in (*(out for _, out in self.pipes), self.back[0]):
            os.set_blocking(fd, False)

    def open(self) -> set[int]:
        return {fd for pipe in (*self.pipes, self.back) for fd in pipe if fd >= 0}


class Reader:
    def __init__(self, own: str, back: str, rank: int) -> None:
        self.fd = os.open(own, os.O_RDONLY | os.O_NONBLOCK)
        self.rest = bytearray()
        said = os.open(back, os.O_WRONLY)
        os.write(said, bytes([rank]))
        os.close(said)


def _ready(fd: int, deadline: float, *, to_write: bool = False) -> None:
    left = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
    if not any(select.select([] if to_write else [fd], [fd] if to_write else [], [], left)):
        raise TimeoutError("the pipe was not ready by the deadline")


def _flush(end: Writer, deadline: float) -> None:
    for place, (_, out) in enumerate(end.pipes):
        while end.unsent[place]:
            _ready(out, deadline, to_write=True)
            end.unsent[place] = end.unsent[place][os.write(out, end.unsent[place]) :]


class OsPipeTarget:
    name = "os_pipes"
    version = "1"
    capabilities: frozenset[Capability] = frozenset(("queue", "deadlines", "points"))
    preloads: tuple[str, ...] = ()

    def load(self) -> None: ...

    def is_own_code(self, code: CodeType) -> bool:
        return code.co_filename == __file__

    def make(self, shape: QueueShape) -> Writer:
        return Writer(shape.readers)

    def handle(self, end: Writer) -> tuple[list[str], str]:
        here = f"/proc/{os.getpid()}/fd/"
        return [f"{here}{into}" for into, _ in end.pipes], f"{here}{end.back[1]}"

    def attach(self, handle: tuple[list[str], str], rank: int) -> Reader:
        if not 0 <= rank < len(handle[0]):
            raise ValueError(f"no reader has rank {rank}")
        return Reader(handle[0][rank], handle[1], rank)

    def ready(self, end: Writer | Reader, timeout: float | None) -> None:
        if isinstance(end, Reader):
            self.receive(end, timeout)
            return
        deadline = _deadline(timeout)
        here = set[int]()
        while len(here) < len(end.pipes):
            _ready(end.back[0], deadline)
            here.update(os.read(end.back[0], 64))
        for fd in (*(into for into, _ in end.pipes), *end.back):
            os.close(fd)
        end.pipes, end.back = [(-1, out) for _, out in end.pipes], (-1, -1)
        self.send(end, "all are here", timeout)

    def send(self, end: Writer, obj: Any, timeout: float | None) -> None:
        body = pickle.dumps(obj)
        self._say(end, memoryview(_LENGTH.pack(len(body)) + body), _deadline(timeout))

    def _say(self, end: Writer, packet: memoryview, deadline: float) -> None:
        _flush(end, deadline)
        for _, out in end.pipes:
            _ready(out, deadline, to_write=True)
        end.unsent = [packet] * len(end.pipes)
        _flush(end, deadline)

    def receive(self, end: Reader, timeout: float | None) -> Any:
        deadline = _deadline(timeout)
        while len(end.rest) < _LENGTH.size or len(end.rest) < _size(end.rest):
            _ready(end.fd, deadline)
            part = os.read(end.fd, 1 << 20)
            if not part:
                raise EOFError("the pipe has no writer any more")
            end.rest += part
        size = _size(end.rest)
        if size == _LENGTH.size:
            raise Closed("the writer closed the pipe")
        body = bytes(end.rest[_LENGTH.size : size])
        del end.rest[:size]
        return pickle.loads(body)

    def close(self, end: Writer | Reader) -> None:
        if isinstance(end, Writer):
            with contextlib.suppress(TimeoutError, BrokenPipeError):
                self._say(end, _GOODBYE, time.monotonic() + 1.0)
        for fd in {end.fd} if isinstance(end, Reader) else end.open():
            os.close(fd)

    def classify(self, error: BaseException) -> Outcome:
        if isinstance(error, (TimeoutError, Closed)):
            return "closed" if isinstance(error, Closed) else "timeout"
        return "peer-died" if isinstance(error, (EOFError, BrokenPipeError)) else "error"


def _size(rest: bytearray) -> int:
    return _LENGTH.size + _LENGTH.unpack_from(rest)[0]


def _deadline(timeout: float | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + max(0.0, timeout)
