"""A broadcast queue of ZeroMQ's: an XPUB of the writer's, and a SUB of each reader's.

It promises what ZeroMQ does: order, whole messages, bounded queues. Nobody is told of a death, and
what is still in a socket's queue goes with its process.
"""

from __future__ import annotations

import os
import pickle
import time
from typing import TYPE_CHECKING, Any

import zmq

if TYPE_CHECKING:
    from types import CodeType

    from killpoint.targets.protocol import Capability, Outcome, QueueShape

_CLOSED = b""


class Closed(Exception):
    """The writer closed its end."""


class End:
    """One end: a socket in a context of its own, and for the writer the number of its readers."""

    def __init__(self, kind: int, readers: int = 0, unread: int = 1000) -> None:
        self.context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self.context.socket(kind)
        self.socket.linger = 1000
        self.socket.sndhwm = self.socket.rcvhwm = unread
        self.readers = readers


class BroadcastTarget:
    name = "zmq_broadcast"
    version = "1"
    capabilities: frozenset[Capability] = frozenset(("queue", "deadlines", "points"))
    preloads = ("zmq",)

    def load(self) -> None: ...

    def is_own_code(self, code: CodeType) -> bool:
        return code.co_filename == __file__

    def make(self, shape: QueueShape) -> End:
        end = End(zmq.XPUB, shape.readers, shape.chunks)
        end.socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        end.socket.setsockopt(zmq.XPUB_NODROP, 1)
        end.socket.bind(f"ipc://@zmq-broadcast-{os.getpid()}-{id(end)}")  # leaves no file
        return end

    def handle(self, end: End) -> str:
        return end.socket.last_endpoint.decode()

    def attach(self, handle: str, rank: int) -> End:
        end = End(zmq.SUB)
        end.socket.connect(handle)
        end.socket.subscribe(b"")
        return end

    def ready(self, end: End, timeout: float | None) -> None:
        if not end.readers:
            self.receive(end, timeout)
            return
        until, here = time.monotonic() + (timeout or 0.0), 0
        while here < end.readers:
            left = None if timeout is None else until - time.monotonic()
            here += 1 if _receive(end, left)[:1] == b"\1" else -1
        self.send(end, "all are here", timeout)

    def send(self, end: End, obj: Any, timeout: float | None) -> None:
        end.socket.sndtimeo = -1 if timeout is None else max(0, int(timeout * 1000))
        end.socket.send(pickle.dumps(obj))

    def receive(self, end: End, timeout: float | None) -> Any:
        if (body := _receive(end, timeout)) == _CLOSED:
            raise Closed("the writer closed the queue")
        return pickle.loads(body)

    def close(self, end: End) -> None:
        if end.readers and not end.socket.closed:
            end.socket.sndtimeo = 1000
            end.socket.send(_CLOSED)
        end.socket.close()
        end.context.term()

    def classify(self, error: BaseException) -> Outcome:
        if isinstance(error, zmq.Again):
            return "timeout"
        return "closed" if isinstance(error, Closed) else "error"


def _receive(end: End, timeout: float | None) -> bytes:
    end.socket.rcvtimeo = -1 if timeout is None else max(0, int(timeout * 1000))
    return end.socket.recv()
