"""Gives the reference's unmodified queue simulated memory, sockets, wake-ups and time.

Its own seams take memory, fences, clock, message sockets; what it asks the system for (eventfd,
epoll, sched_yield) is replaced by module globals. Ring, waiting, guard, serialization, overflow
and both ends are its own code. The handshake is not: every party has arrived from the start, and no
party ever dies.
"""

from __future__ import annotations

import itertools
import os
import select
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import zmq

from killpoint.interfaces import SimulatedEnvironment
from killpoint.targets.refengine import simulated
from killpoint.targets.refengine.simulated import SimulatedFence, SimulatedMemory
from killpoint.targets.shapes import QueueShape
from refengine.base import event_waiter
from refengine.base.serialization import SMALLEST_CHUNK
from refengine.queue import MessageQueue, local_fanout, overflow, reader
from refengine.queue.handshake import NONCE_BYTES, Handle
from refengine.ring import waiting
from refengine.ring.layout import Layout
from refengine.ring.waiting import Adaptive

NOTES = (
    "simulated: the handshake is replaced, every party has arrived from the start, none dies",
    "simulated: eventfd, epoll and sched_yield of waiters and wake-ups; message sockets",
    "simulated: an overflow payload is fetched by the calling thread itself",
    "simulated: the waiting strategy takes no bare looks and yields for no time: who finds nothing"
    " goes to sleep at once",
)


@contextmanager
def rebound(environment: SimulatedEnvironment) -> Generator[QueuesSimulated]:
    """Until left, queues are made of simulated parts."""
    handshakes: dict[str, tuple[int, int]] = {}
    names = itertools.count()
    stood_in: dict[ModuleType, dict[str, object]] = {
        event_waiter: {
            "os": _system(environment),
            "select": _selecting(environment),
            "HeldFds": _HeldFds,
        },
        waiting: {"os": _system(environment), "_YIELDING": 0.0},
        local_fanout: {
            "os": _system(environment),
            "HandshakeServer": _placed(_HandshakeServer, handshakes),
            "Path": _NoPath,
            "new_directory": lambda: _NoPath(f"/simulated/{next(names)}"),
            "remove_directory": _nothing,
            "remove_stale_names": _nothing,
        },
        reader: {
            "os": _system(environment),
            "HandshakeClient": _placed(_HandshakeClient, handshakes),
            "remove_if_orphan": _nothing,
        },
        overflow: {
            "zmq": Replacement(zmq, Poller=lambda: environment.sockets.Poller()),
            "threading": Replacement(threading, main_thread=lambda: None),
            "FdReserve": _NoReserve,
            "ensure_fds_available": _nothing,
        },
    }
    kept = [(module, name, getattr(module, name)) for module, ns in stood_in.items() for name in ns]
    for module, contents in stood_in.items():
        for name, value in contents.items():
            setattr(module, name, value)
    try:
        with simulated.plain_structs():
            yield QueuesSimulated(environment)
    finally:
        for module, name, real in kept:
            setattr(module, name, real)


class QueuesSimulated:
    """The black box over whole queues."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self._environment = environment

    def make(self, shape: QueueShape) -> MessageQueue:
        """Make the writer's end."""
        sizes = (shape.readers, max(SMALLEST_CHUNK, shape.chunk_bytes), shape.chunks)
        queue = MessageQueue(
            shape.readers,
            max_chunk_bytes=sizes[1],
            max_chunks=shape.chunks,
            **self._seams(shape.readers),
        )
        end: Any = _unwatched(queue)
        end.ring.segment.call(simulated.namer(Layout(*sizes)))
        return queue

    def handle(self, end: MessageQueue) -> Handle:
        """Return what a reader needs."""
        return end.export_handle()

    def attach(self, handle: Handle, rank: int) -> MessageQueue:
        """Make the end of reader ``rank``."""
        queue = MessageQueue.create_from_handle(handle, rank, **self._seams(handle.n_reader))
        _unwatched(queue)
        return queue

    def ready(self, end: MessageQueue, timeout: float | None) -> None:
        """Do what is left of the handshake."""
        end.wait_until_ready(timeout)

    def send(self, end: MessageQueue, obj: Any, timeout: float | None) -> None:
        """Enqueue."""
        end.enqueue(obj, timeout)

    def receive(self, end: MessageQueue, timeout: float | None) -> Any:
        """Dequeue."""
        return end.dequeue(timeout)

    def _seams(self, readers: int) -> Any:
        around = self._environment
        return {
            "memory": SimulatedMemory(around),
            "fence": SimulatedFence(around),
            "clock": around.now,
            "sockets": _Factory(around),
            "waiting": Adaptive(readers, around.now, cores=1),
        }


class Replacement:
    """A module with a few of its contents replaced."""

    def __init__(self, module: ModuleType, **instead: object) -> None:
        self.__dict__.update(instead)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Factory:
    def __init__(self, environment: SimulatedEnvironment) -> None:
        self._environment = environment

    def context(self) -> Any:
        return self._environment.sockets.Context()


def _placed(kind: type[Any], handshakes: dict[str, tuple[int, int]]) -> type[Any]:
    """The class, knowing where the handshakes are."""
    real: Any = kind.__init__

    def begin(self: Any, *given: object) -> None:
        real(self, handshakes, *given)

    return type(kind.__name__, (kind,), {"__init__": begin})


class _HandshakeServer:
    """A handshake in which every reader has arrived, and stays."""

    def __init__(
        self,
        handshakes: dict[str, tuple[int, int]],
        path: str,
        state: Any,
        _payloads: Any,
        wakeups: tuple[int, int],
        *_rest: object,
    ) -> None:
        handshakes[path] = wakeups
        self.peers = {rank: _Peer(f"reader {rank}") for rank in state.missing()}

    def wait(self, _deadline: Callable[[], float | None], _waiter_fd: int) -> bool:
        return True

    def send_go(self) -> None:
        pass

    def close(self) -> None:
        pass


class _HandshakeClient:
    """Gets the wake-up descriptors with the welcome, then the go."""

    def __init__(self, handshakes: dict[str, tuple[int, int]], path: str, *_rest: object) -> None:
        self.peer = _Peer("writer")
        self._wakeups = handshakes[path]
        self._heard = 0

    def say_hello(self) -> None:
        pass

    def hear(self) -> bool:
        self._heard += 1
        return True

    @property
    def welcomed(self) -> bool:
        return self._heard > 0

    @property
    def go(self) -> bool:
        return self._heard > 1

    def welcome(self) -> tuple[bytes, list[int]]:
        return bytes(NONCE_BYTES), list(self._wakeups)

    def close(self) -> None:
        pass


class _Peer:
    """A process that lives for ever."""

    pid = pidfd = -1

    def __init__(self, role: str) -> None:
        self.role = role

    def watch(self, *_: object) -> None:
        pass

    unwatch = close = drop = watch


class _NoPath:
    """A path that leads nowhere."""

    def __init__(self, path: object) -> None:
        self._path = str(path)

    def __truediv__(self, name: str) -> _NoPath:
        return _NoPath(f"{self._path}/{name}")

    def __str__(self) -> str:
        return self._path

    @property
    def parent(self) -> _NoPath:
        return _NoPath(self._path.rpartition("/")[0])

    def chmod(self, mode: int) -> None:
        pass


class _HeldFds:
    """Simulated ones end with their world: nothing is given back to the system."""

    def open(self, call: Callable[..., int], *args: object) -> int:
        return call(*args)

    def close_all_but(self, count: int) -> None:
        pass

    def close(self) -> None:
        pass


class _NoReserve(_HeldFds):
    """Empty reserve, for a context without threads."""

    def __init__(self, count: int) -> None:
        pass


def _unwatched(queue: MessageQueue) -> Any:
    """Have an end dropped without a warning, since none would be read; return the inner end."""
    inside: Any = queue
    inside._finalizer.cancel()
    return inside._end


def _system(environment: SimulatedEnvironment) -> Replacement:
    def eventfd(initval: int = 0, flags: int = 0) -> int:
        return environment.sockets.descriptors.eventfd(initval, flags)

    def eventfd_write(fd: int, value: int) -> None:
        environment.sockets.descriptors.eventfd_write(fd, value)

    def close(fd: int) -> None:
        environment.sockets.descriptors.close(fd)

    def sched_yield() -> None:
        environment.spin("its next look")

    return Replacement(
        os, eventfd=eventfd, eventfd_write=eventfd_write, close=close, sched_yield=sched_yield
    )


def _selecting(environment: SimulatedEnvironment) -> Replacement:
    def epoll(sizehint: int = -1, flags: int = 0) -> Any:
        return environment.sockets.descriptors.epoll(sizehint, flags)

    return Replacement(select, epoll=epoll)


def _nothing(*_: object) -> None:
    pass
