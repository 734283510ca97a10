"""faster-fifo as a broadcast queue: a ring of bytes in shared memory for each reader, in C++.

A ring is guarded by a lock that all its processes share, and that is not robust: the kernel does
not give it back when its holder dies. Readers say that they have come through one more ring.
"""

from __future__ import annotations

import os
import queue
import time
from multiprocessing.context import set_spawning_popen
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import faster_fifo

if TYPE_CHECKING:
    from types import CodeType

    from killpoint.targets.protocol import Capability, Outcome, QueueShape

_ROOM = 16 << 20
_EVER = 1e6  # seconds


class _Descriptor:
    """A descriptor that a process opens which was not there when it was made."""

    def __init__(self, fd: int) -> None:
        self.path = f"/proc/{os.getpid()}/fd/{fd}"

    def detach(self) -> int:
        return os.open(self.path, os.O_RDWR)


class _Passage:
    """Stands for a process that is being spawned: only to such a one are rings handed on."""

    DupFd = _Descriptor

    def duplicate_for_child(self, fd: int) -> int:
        return fd


class End:
    """One end: the rings that it writes to or reads from, and the one by which readers come."""

    def __init__(self, rings: list[Any], back: Any, rank: int | None = None) -> None:
        self.rings, self.back, self.rank = rings, back, rank


class FifoTarget:
    name = "fast_fifo"
    version = "1.5"
    capabilities: frozenset[Capability] = frozenset(("queue", "deadlines", "points"))
    preloads: tuple[str, ...] = ()
    native = ("faster_fifo",)

    def load(self) -> None: ...

    def is_own_code(self, code: CodeType) -> bool:
        return code.co_filename == __file__

    def make(self, shape: QueueShape) -> End:
        rings = [faster_fifo.Queue(_ROOM, shape.chunks) for _ in range(shape.readers)]
        return End(rings, faster_fifo.Queue(4096))

    def handle(self, end: End) -> bytes:
        set_spawning_popen(_Passage())
        try:
            return bytes(ForkingPickler.dumps((end.rings, end.back)))
        finally:
            set_spawning_popen(None)

    def attach(self, handle: bytes, rank: int) -> End:
        rings, back = ForkingPickler.loads(handle)
        if not 0 <= rank < len(rings):
            raise ValueError(f"no reader has rank {rank}")
        return End([rings[rank]], back, rank)

    def ready(self, end: End, timeout: float | None) -> None:
        if end.rank is not None:
            end.back.put(end.rank, timeout=_left(timeout))
            self.receive(end, timeout)
            return
        until, here = time.monotonic() + _left(timeout), set[int]()
        while len(here) < len(end.rings):
            here.add(end.back.get(timeout=max(0.0, until - time.monotonic())))
        self.send(end, "all are here", timeout)

    def send(self, end: End, obj: Any, timeout: float | None) -> None:
        if end.rank is not None:
            raise TypeError("a reader sends nothing")
        until = time.monotonic() + _left(timeout)
        while any(ring.full() for ring in end.rings):  # to all of them or to none
            if time.monotonic() >= until:
                raise queue.Full
            time.sleep(0.0005)
        for ring in end.rings:
            ring.put(obj, timeout=max(0.0, until - time.monotonic()))

    def receive(self, end: End, timeout: float | None) -> Any:
        return end.rings[0].get(timeout=_left(timeout))

    def close(self, end: End) -> None:
        end.rings.clear()

    def classify(self, error: BaseException) -> Outcome:
        return "timeout" if isinstance(error, (queue.Full, queue.Empty)) else "error"


def _left(timeout: float | None) -> float:
    return _EVER if timeout is None else max(0.0, timeout)
