"""Measuring process: makes or attaches its ends, and times the loop that it is ordered to run.

The clock is the machine's monotonic one, so that the times of two processes can be compared. An
order is ``(name, arguments)``; the answer ``("ok", value)`` or ``("error", text)``. Before a loop
that waits for another process comes ``("armed", None)``.
"""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from killpoint.bench.peers.peer_protocol import PeerProtocol, receiver, sender
from killpoint.bench.pipes.orders import PipeOrders
from killpoint.bench.pools.orders import PoolOrders
from killpoint.bench.workload import Payload, check, maker
from killpoint.targets.shapes import QueueShape

_BORN_WITHIN = 30.0


class Worker(PoolOrders, PipeOrders):
    """Serves the runner until it says ``leave`` or is gone."""

    def __init__(self, line: PeerProtocol, channel: Connection) -> None:
        PoolOrders.__init__(self, line)
        PipeOrders.__init__(self, line)
        self._line, self._channel = line, channel
        self._ends: dict[str, Any] = {}
        self._made: tuple[Payload, Callable[[int], Any]] | None = None

    def serve(self) -> None:
        """Carry out one order after the other."""
        while True:
            try:
                name, arguments = self._channel.recv()
            except (EOFError, OSError):
                break
            if name == "leave":
                break
            try:
                answer = ("ok", getattr(self, name)(*arguments))
            except Exception as error:
                text = " ".join(str(error).split())
                answer = ("error", f"{type(error).__name__}: {text}"[:500])
            self._channel.send(answer)
        for end in self._ends.values():
            self._line.close(end)
        self._ends.clear()
        gc.collect()

    def make(self, key: str, shape: QueueShape) -> bytes:
        """The writer's end of queue ``key``; its handle."""
        end = self._ends[key] = self._line.make(shape)
        return pickle.dumps(self._line.handle(end))

    def attach(self, key: str, handle: bytes, rank: int) -> None:
        """A reader's end."""
        self._ends[key] = self._line.attach(pickle.loads(handle), rank)

    def ready(self, key: str) -> None:
        """The handshake."""
        self._line.ready(self._ends[key], _BORN_WITHIN)

    def send(self, key: str, payload: Payload, count: int) -> tuple[int, int]:
        """Send messages 0 to ``count``; when that began and when the last call returned."""
        make, put = self._maker(payload), sender(self._line, self._ends[key])
        gc.collect()
        start = time.monotonic_ns()
        for number in range(count):
            put(make(number))
        return start, time.monotonic_ns()

    def receive(self, key: str, payload: Payload | None, count: int) -> int:
        """Receive as many and look at each; when the last was looked at."""
        take = receiver(self._line, self._ends[key])
        look = check(payload) if payload else _no_look
        gc.collect()
        self._channel.send(("armed", None))
        for number in range(count):
            message = take()
            look(number, message)
        end = time.monotonic_ns()
        message = None
        return end

    def echo(self, there: str, back: str, payload: Payload | None, count: int) -> None:
        """Look at each message, and send it back as it is."""
        take, put = receiver(self._line, self._ends[there]), sender(self._line, self._ends[back])
        look = check(payload) if payload else _no_look
        gc.collect()
        self._channel.send(("armed", None))
        for number in range(count):
            message = take()
            look(number, message)
            put(message)

    def round_trips(
        self, there: str, back: str, payload: Payload, count: int, checked: bool
    ) -> list[int]:
        """Send and await each message; nanoseconds of each trip."""
        make, put = self._maker(payload), sender(self._line, self._ends[there])
        take = receiver(self._line, self._ends[back])
        look = check(payload) if checked else _no_look
        clock, trips = time.monotonic_ns, list[int]()
        gc.collect()
        for number in range(count):
            message = make(number)
            start = clock()
            put(message)
            message = take()
            trips.append(clock() - start)
            look(number, message)
        return trips

    def _maker(self, payload: Payload) -> Callable[[int], Any]:
        if self._made is None or self._made[0] != payload:
            self._made = None
            self._made = payload, maker(payload)
        return self._made[1]


def _no_look(number: int, message: Any) -> None:
    """Ignore the message: the peer carries nothing."""
