"""A replica's and a front end's connection to the coordinator."""

import logging
from typing import Any

import zmq

from ..clock import Clock, monotonic
from ..malformed import Dropped, Malformed
from . import wire
from .messages import Report, Scale, Start, State
from .sockets import Addresses

_log = logging.getLogger(__name__)


class _Link:
    """Hears what the coordinator publishes, and when it last did."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._context: zmq.Context[Any] = zmq.Context(io_threads=1)
        self._since = clock()
        self._dropped = Dropped(_log)

    def close(self) -> None:
        """Leave."""
        self._context.destroy(linger=0)

    def quiet(self) -> float:
        """Seconds since the coordinator gave a sign of life."""
        return self._clock() - self._since

    def _next(self, socket: Any, seconds: float) -> Start | State | None:
        until = self._clock() + max(0.0, seconds)
        while socket.poll(max(0.0, until - self._clock()) * 1000):
            frame = socket.recv_multipart()[-1]
            try:
                news = wire.news(frame)
            except Malformed:
                self._dropped.add("what came from the coordinator")
                continue
            self._since = self._clock()
            return news
        return None


class EngineLink(_Link):
    """A replica's. Say something at least once a second: any report is a sign of life."""

    def __init__(self, addresses: Addresses, rank: int, clock: Clock = monotonic) -> None:
        super().__init__(clock)
        self.rank = rank
        self._starts = addresses.connect(self._context, zmq.SUB, addresses.starts)
        self._starts.subscribe(wire.ALL)  # before the topic that tells of the arrival
        self._starts.subscribe(wire.topic(rank))
        self._reports = addresses.connect(self._context, zmq.PUSH, addresses.reports)

    def fileno(self) -> int:
        """Readable when something may have come: ask `hear` until it has nothing."""
        return self._starts.fileno()

    def send(self, reports: list[Report]) -> None:
        """To the coordinator, in order."""
        for report in reports:
            self._reports.send(wire.encode(report), zmq.NOBLOCK)

    def alive(self) -> None:
        """Give a sign of life."""
        self.send([Report(self.rank)])

    def hear(self, seconds: float = 0.0) -> Start | State | None:
        """The next word of the coordinator's, if one comes in that time."""
        return self._next(self._starts, seconds)


class FrontEndLink(_Link):
    """A front end's."""

    def __init__(self, addresses: Addresses, clock: Clock = monotonic) -> None:
        super().__init__(clock)
        self._states = addresses.connect(self._context, zmq.XSUB, addresses.states)
        self._states.send(b"\1")

    def hear(self, seconds: float = 0.0) -> State | None:
        """The next state, if one comes in that time."""
        found = self._next(self._states, seconds)
        return found if isinstance(found, State) else None

    def scale(self, engines: int) -> None:
        """There are to be so many replicas, from the next wave on."""
        self._states.send(wire.encode(Scale(engines)))
