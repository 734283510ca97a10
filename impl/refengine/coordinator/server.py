"""The coordinator's shell: sockets and time around the wave core, a turn at a time."""

import logging
import math
from dataclasses import dataclass
from typing import Any

import zmq

from ..base.clock import Clock, monotonic, poll_milliseconds
from ..base.frame_decoding import DropCounter
from . import protocol
from .links import Addresses, BindAddress
from .protocol import Start, State
from .waves import CoordinatorWave

_log = logging.getLogger(__name__)
_FRAMES_A_TURN = 64  # frames of one socket before the others, and the clock, have their turn


class HeartbeatTable:
    """Heartbeats of replicas (SPEC C6); sans I/O, in monotonic seconds.

    A rank that never subscribed is not missed.
    """

    def __init__(self, peer_timeout: float) -> None:
        self._peer_timeout = peer_timeout
        self._heard: dict[int, float] = {}
        self._listening: dict[int, int] = {}

    def subscribed(self, rank: int, now: float) -> bool:
        """Count a subscription; return whether its rank counted as gone until now.

        A rank that was given up may come back by a new link before the end of its old one is seen.
        """
        gone = rank not in self._heard
        self._heard[rank] = now
        self._listening[rank] = self._listening.get(rank, 0) + 1
        return gone

    def unsubscribed(self, rank: int) -> bool:
        """Count a subscription's end; return whether it was the rank's last."""
        left = self._listening.get(rank, 0) - 1
        if left > 0:
            self._listening[rank] = left
            return False
        self._heard.pop(rank, None)
        return self._listening.pop(rank, None) is not None

    def heard_from(self, rank: int, now: float) -> bool:
        """Note a message; return whether its sender is subscribed and had been given up."""
        if rank not in self._listening:
            return False
        back = rank not in self._heard
        self._heard[rank] = now
        return back

    def drop_silent(self, now: float) -> list[int]:
        """Give up the ranks that were silent for the timeout, and return them."""
        gone = [rank for rank, heard in self._heard.items() if now - heard >= self._peer_timeout]
        for rank in gone:
            del self._heard[rank]
        return gone

    def due(self) -> float:
        """Return when the next rank may have to be given up; infinite if none."""
        return min(self._heard.values(), default=float("inf")) + self._peer_timeout


class PublishSchedule:
    """Schedule of publications: soon after a change, and now and then without one.

    Sans I/O, in monotonic seconds (SPEC C5, C7).

    The first change since the last publication decides. Further ones, or a flood of messages that
    change nothing, put nothing off.
    """

    def __init__(self, now: float, interval: float, idle: float) -> None:
        self._interval, self._idle = interval, idle
        self.due = now + interval
        """Time of the next publication."""

    def changed(self, now: float) -> None:
        """Bring the next publication forward after a change."""
        self.due = min(self.due, now + self._interval)

    def published(self, now: float) -> None:
        """Schedule the next publication after one that was just made."""
        self.due = now + self._idle


@dataclass(frozen=True)
class CoordinatorSettings:
    """Times of the coordinator, in seconds."""

    interval: float = 0.1
    """Seconds from a change to its publication."""
    idle: float = 1.0
    """Seconds between publications without a change: the coordinator's own heartbeat."""
    peer_timeout: float = 3.0
    """Seconds without a message of a replica, after which it counts as gone."""


class CoordinatorServer:
    """Sockets of one coordinator. `turn` waits at most until something is due."""

    def __init__(
        self,
        engines: int,
        bind_address: BindAddress,
        settings: CoordinatorSettings | None = None,
        clock: Clock = monotonic,
    ) -> None:
        settings = settings or CoordinatorSettings()
        self.core = CoordinatorWave(engines)
        self._dropped = DropCounter(_log)
        self._clock = clock
        self._heartbeats = HeartbeatTable(settings.peer_timeout)
        self._schedule = PublishSchedule(clock(), settings.interval, settings.idle)
        self._context: zmq.Context[Any] = zmq.Context(io_threads=1)
        try:
            self._states, states = bind_address.bind(self._context, zmq.XPUB, "states")
            self._reports, reports = bind_address.bind(self._context, zmq.PULL, "reports")
            self._starts, starts = bind_address.bind(self._context, zmq.XPUB, "starts")
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self.addresses = Addresses(states, reports, starts, bind_address.keys)
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
        """Number of parts of messages that were dropped, those out of range included."""
        return self._dropped.parts

    def watch(self, fd: int) -> None:
        """End a turn as well when this descriptor is readable."""
        self._poller.register(fd, zmq.POLLIN)

    def turn(self, most: float = 60.0) -> list[int]:
        """Wait, take a fair share of each socket's messages, and publish if it is due.

        Returns the watched descriptors that are readable; waits at most `most` seconds.
        """
        due = min(self._schedule.due, self._heartbeats.due()) - self._clock()
        ready = dict(self._poller.poll(math.ceil(poll_milliseconds(min(due, most)))))
        for socket, hear in self._hear.items():
            if ready.pop(socket, 0):
                self._drain(socket, hear)
        now = self._clock()
        for rank in self._heartbeats.drop_silent(now):
            _log.warning("replica %d was not heard of for too long: it counts as gone", rank)
            self._send(self.core.left(rank))
        if now >= self._schedule.due:
            self._publish(now)
        return [fd for fd in ready if isinstance(fd, int)]

    def close(self) -> None:
        """Close all sockets."""
        self._context.destroy(linger=0)

    def _drain(self, socket: Any, hear: Any) -> None:
        for _ in range(_FRAMES_A_TURN):
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(frames) == 1:
                hear(frames[0])
            else:
                self._dropped.add("a message of several frames")

    def _subscription(self, frame: bytes) -> None:
        rank = protocol.rank_of_subscription(frame)
        if rank is None:
            if frame[1:] != protocol.ALL_REPLICAS:
                self._dropped.add("a subscription to no replica's topic")
            return
        if frame[:1] == b"\1" and self._heartbeats.subscribed(rank, self._clock()):
            self._send(self.core.arrived(rank))
        elif frame[:1] == b"\0" and self._heartbeats.unsubscribed(rank):
            self._send(self.core.left(rank))

    def _report(self, frame: bytes) -> None:
        report, wrong = protocol.decode_report(frame)
        if wrong:
            self._dropped.add("a replica's message, or a part of it", wrong)
        if report is None:
            return
        now = self._clock()
        if self._heartbeats.heard_from(report.rank, now):
            self._send(self.core.arrived(report.rank))
        refused, counts = self.core.refused, self.core.counts
        before = list(counts)
        self._send(self.core.hear(report))
        if self.core.refused != refused:
            parts = self.core.refused - refused
            self._dropped.add(f"what replica {report.rank} said, in part", parts)
        if self.core.counts != before:
            self._schedule.changed(now)

    def _front_end(self, frame: bytes) -> None:
        if frame[:1] == b"\1":
            self._schedule.changed(self._clock())
        elif frame[:1] != b"\0":
            scale = protocol.decode_scale(frame)
            refused = self.core.refused
            self._send(self.core.scale(scale.engines) if scale else [])
            if scale is None or self.core.refused != refused:
                self._dropped.add("a front end's message")

    def _publish(self, now: float) -> None:
        """Publish to front ends; send replicas a heartbeat, or again the start that is in force."""
        state = self.core.state()
        self._send([state])
        sign = Start(state.wave, self.core.members) if state.running else State(state.wave, False)
        self._starts.send_multipart([protocol.ALL_REPLICAS, protocol.encode(sign)])
        self._schedule.published(now)

    def _send(self, messages: "list[Start | State]") -> None:
        for message in messages:
            frame = protocol.encode(message)
            if isinstance(message, Start):
                self._starts.send_multipart([protocol.ALL_REPLICAS, frame])
            else:
                self._states.send(frame)
