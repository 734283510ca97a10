"""The coordinator's shell: sockets, time and the wave core, a turn at a time."""

import logging
import math
from dataclasses import dataclass
from typing import Any

import zmq

from ..clock import Clock, monotonic
from ..malformed import Dropped
from . import wire
from .coordinator_wave import CoordinatorWave
from .messages import Start, State
from .presence import Presence
from .publication import Publication
from .sockets import Addresses, Place

_log = logging.getLogger(__name__)
_AT_ONCE = 64  # frames of one socket before the others, and the clock, have their turn


@dataclass(frozen=True)
class CoordinatorSettings:
    """Seconds."""

    interval: float = 0.1
    """From a change to its publication."""
    idle: float = 1.0
    """Between publications while nothing changes: the coordinator's own sign of life."""
    silence: float = 3.0
    """Without a word of a replica, after which it counts as gone."""


class Loop:
    """One coordinator. `turn` waits at most until something is due."""

    def __init__(
        self,
        engines: int,
        place: Place,
        settings: CoordinatorSettings | None = None,
        clock: Clock = monotonic,
    ) -> None:
        settings = settings or CoordinatorSettings()
        self.core = CoordinatorWave(engines)
        self._dropped = Dropped(_log)
        self._clock = clock
        self._presence = Presence(settings.silence)
        self._publication = Publication(clock(), settings.interval, settings.idle)
        self._context: zmq.Context[Any] = zmq.Context(io_threads=1)
        try:
            self._states, states = place.bind(self._context, zmq.XPUB, "states")
            self._reports, reports = place.bind(self._context, zmq.PULL, "reports")
            self._starts, starts = place.bind(self._context, zmq.XPUB, "starts")
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self.addresses = Addresses(states, reports, starts, place.keys)
        self._poller = zmq.Poller()
        self._hear = {
            self._starts: self._subscription,
            self._reports: self._report,
            self._states: self._front_end,
        }
        for socket in self._hear:
            self._poller.register(socket, zmq.POLLIN)

    @property
    def malformed(self) -> int:
        """Parts of messages that were dropped, those out of range included."""
        return self._dropped.parts

    def watch(self, fd: int) -> None:
        """A descriptor that ends a turn, too."""
        self._poller.register(fd, zmq.POLLIN)

    def turn(self, most: float = 60.0) -> list[int]:
        """Wait, hear a fair share of what came, do what is due; the watched that are ready."""
        due = min(self._publication.due, self._presence.due()) - self._clock()
        ready = dict(self._poller.poll(math.ceil(max(0.0, min(due, most)) * 1000)))
        for socket, hear in self._hear.items():
            if ready.pop(socket, 0):
                self._drain(socket, hear)
        now = self._clock()
        for rank in self._presence.silent(now):
            _log.warning("replica %d was not heard of for too long: it counts as gone", rank)
            self._send(self.core.left(rank))
        if now >= self._publication.due:
            self._publish(now)
        return [fd for fd in ready if isinstance(fd, int)]

    def close(self) -> None:
        """Leave, with all sockets."""
        self._context.destroy(linger=0)

    def _drain(self, socket: Any, hear: Any) -> None:
        for _ in range(_AT_ONCE):
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(frames) == 1:
                hear(frames[0])
            else:
                self._dropped.add("a message of several frames")

    def _subscription(self, frame: bytes) -> None:
        rank = wire.rank_of(frame)
        if rank is None:
            if frame[1:] != wire.ALL:
                self._dropped.add("a subscription to no replica's topic")
            return
        if frame[:1] == b"\1" and self._presence.came(rank, self._clock()):
            self._send(self.core.arrived(rank))
        elif frame[:1] == b"\0" and self._presence.went(rank):
            self._send(self.core.left(rank))

    def _report(self, frame: bytes) -> None:
        report, wrong = wire.report(frame)
        if wrong:
            self._dropped.add("a replica's message, or a part of it", wrong)
        if report is None:
            return
        now = self._clock()
        if self._presence.spoke(report.rank, now):
            self._send(self.core.arrived(report.rank))
        refused, counts = self.core.refused, self.core.counts
        before = list(counts)
        self._send(self.core.hear(report))
        if self.core.refused != refused:
            parts = self.core.refused - refused
            self._dropped.add(f"what replica {report.rank} said, in part", parts)
        if self.core.counts != before:
            self._publication.changed(now)

    def _front_end(self, frame: bytes) -> None:
        if frame[:1] == b"\1":
            self._publication.changed(self._clock())
        elif frame[:1] != b"\0":
            scale = wire.scale(frame)
            refused = self.core.refused
            self._send(self.core.scale(scale.engines) if scale else [])
            if scale is None or self.core.refused != refused:
                self._dropped.add("a front end's message")

    def _publish(self, now: float) -> None:
        """To front ends; to replicas a sign of life, and once more the start that is in force."""
        state = self.core.state()
        self._send([state])
        sign = Start(state.wave, self.core.members) if state.running else State(state.wave, False)
        self._starts.send_multipart([wire.ALL, wire.encode(sign)])
        self._publication.published(now)

    def _send(self, messages: "list[Start | State]") -> None:
        for message in messages:
            frame = wire.encode(message)
            if isinstance(message, Start):
                self._starts.send_multipart([wire.ALL, frame])
            else:
                self._states.send(frame)
