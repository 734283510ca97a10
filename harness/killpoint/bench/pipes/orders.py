"""Timed orders of a measuring process on a pipe."""

from __future__ import annotations

import gc
import importlib
import time
from typing import Any

import msgspec

_SECRET = b"of two ranks that are measured  "
"""32 bytes, for pipes that authenticate: nothing but their figures is worth anything."""


class PipeOf(msgspec.Struct, frozen=True):
    """The pipe that is measured, as adapters read it."""

    size: int = 2
    device: str = "cpu"
    transport: str = ""
    buffer_bytes: int = 1 << 30


class PipeOrders:
    """The pipe's half of a measuring process. Rank 0 sends, rank 1 says that it has it."""

    def __init__(self, target: Any) -> None:
        """``target``: whose pipes are measured."""
        self._carrier = target
        self._pipe: Any = None
        self._tensor: Any = None

    def pipe_make(self, rank: int, shape: PipeOf, host: str, port: int, nbytes: int) -> bool:
        """Make one end, and what it sends; return False if the target has no pipe."""
        if not hasattr(self._carrier, "pipe_make"):
            return False
        torch: Any = importlib.import_module("torch")
        self._tensor = torch.arange(nbytes, dtype=torch.int64).to(torch.uint8)
        self._pipe = self._carrier.pipe_make(rank, shape, host, port, _SECRET, None)
        return True

    def pipe_trips(self, count: int) -> list[int]:
        """Nanoseconds from each send until the other end has it and has said so."""
        send, receive, clock = self._carrier.pipe_send, self._carrier.pipe_recv, time.monotonic_ns
        pipe, tensor = self._pipe, self._tensor
        gc.collect()
        took = list[int]()
        for _ in range(count):
            start = clock()
            send(pipe, tensor, None)
            receive(pipe, None)
            took.append(clock() - start)
        return took

    def pipe_takes(self, count: int) -> None:
        """Take as many, look at the ends of each, and say so."""
        send, receive, pipe = self._carrier.pipe_send, self._carrier.pipe_recv, self._pipe
        first, last = (int(self._tensor[at]) for at in (0, -1))
        gc.collect()
        for _ in range(count):
            tensor = receive(pipe, None)
            if (int(tensor[0]), int(tensor[-1]), len(tensor)) != (first, last, len(self._tensor)):
                raise ValueError("what arrived is not what was sent")
            tensor = None
            send(pipe, None, None)

    def pipe_close(self) -> None:
        """End it."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            self._carrier.pipe_close(pipe, None)
