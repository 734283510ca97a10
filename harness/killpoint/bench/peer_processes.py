"""The processes of one peer in one place: made, warmed up, sampled, ended."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import msgspec

from killpoint.bench.machine import processor_seconds
from killpoint.bench.process_factory import (
    FactoryProcess,
    NotMeasured,
    ProcessFactory,
    Stuck,
    TooSlow,
)
from killpoint.bench.workload import Payload
from killpoint.targets.shapes import QueueShape

_SETUP = 60.0
WITHIN = 60.0
"""Seconds for a sample, which is meant to take at most a few."""
_MOST_MESSAGES, _MOST_TRIPS = 200_000, 3_000
_LEAST_MESSAGES, _LEAST_TRIPS = 8, 5
_SLOWEST_SAMPLE = 3.0
_LONGEST_SAMPLE = 1.0
_SMALL = Payload("bytes", 64)
_BLOCKING, _BLOCKED_COUNT = Payload("bytes", 4096), 200
"""200 of 4 KiB: more than any peer's room, less than its patience."""


class Sample(msgspec.Struct, frozen=True):
    """A figure, and for round trips the single times, in microseconds."""

    figure: float
    trips: list[float] = []


class PeerProcesses:
    """A writer and its readers, or two that play ping-pong."""

    def __init__(
        self, factory: ProcessFactory, shape: QueueShape, seconds: float, *, checked: bool = True
    ) -> None:
        self.name = factory.name
        self._factory, self._shape, self._seconds = factory, shape, seconds
        self._checked = checked
        self._members: list[FactoryProcess] = []
        self.count = 0
        """Messages or round trips in a sample; ``warm_up`` finds it."""
        self._each = 0.0

    def agree(self, count: int) -> None:
        """Take as many as the target does, unless that lasts too long: fewer pay for starting."""
        self.count = max(1, min(count, int(_LONGEST_SAMPLE / max(self._each, 1e-9))))

    def _member(self, role: str) -> FactoryProcess:
        member = self._factory.fork(role)
        self._members.append(member)
        return member

    def _connect(self, key: str, writer: FactoryProcess, readers: list[FactoryProcess]) -> None:
        handle = writer.do(_SETUP, "make", key, self._shape)
        for rank, reader in enumerate(readers):
            reader.do(_SETUP, "attach", key, handle, rank)
        for member in (writer, *readers):
            member.order("ready", key)
        for member in (writer, *readers):
            member.answer(_SETUP)

    @contextlib.contextmanager
    def _blame(self) -> Generator[None]:
        """Add to a ``Stuck`` error where the other members are: one of them is waited for."""
        try:
            yield
        except Stuck as error:
            others = "; ".join(
                f"{member.role} is in {member.where()}"
                for member in self._members
                if member.role not in str(error)
            )
            raise Stuck(f"{error}; {others}" if others else str(error)) from error

    def _look(self, payload: Payload) -> Payload | None:
        return payload if self._checked else None

    def start(self) -> None:
        """Create the processes. Those that exist are ended by ``leave`` and by ``kill`` alike."""
        raise NotImplementedError

    def leave(self) -> list[str]:
        """End every process in good order; what had to be done by force."""
        for member in self._members:
            member.leave()
        forced = [member.end() for member in self._members]
        self._members.clear()
        return [text for text in forced if text]

    def kill(self) -> None:
        """End every process now."""
        for member in self._members:
            member.kill()
        for member in self._members:
            member.end()
        self._members.clear()


class Stream(PeerProcesses):
    """One writer, some readers; sampled by messages per second."""

    def __init__(self, factory: ProcessFactory, shape: QueueShape, seconds: float) -> None:
        super().__init__(factory, shape, seconds)
        self.writer: FactoryProcess
        self.readers: list[FactoryProcess] = []

    def start(self) -> None:
        """Make the processes and the queue."""
        self.writer = self._member("writer")
        self.readers = [self._member(f"reader {rank}") for rank in range(self._shape.readers)]
        self._connect("q", self.writer, self.readers)

    def warm_up(self, payload: Payload) -> None:
        """Touch every slot, then find out how many messages a sample needs.

        Raises:
            TooSlow: a sample would take too long.
        """
        inline = payload.size < self._shape.chunk_bytes
        first = self._shape.chunks + 2 if inline and self._shape.chunks < 64 else 2
        each = self._run(payload, 2)
        if each * first < _SLOWEST_SAMPLE:
            each = self._run(payload, first)
        if each * _LEAST_MESSAGES > _SLOWEST_SAMPLE:
            raise TooSlow(f"too slow to sample: {each:.2g} s a message")
        count = self._fitting(each / 4)
        self._each = self._run(payload, max(2, count // 4))
        self.count = self._fitting(self._each)

    def sample(self, payload: Payload) -> Sample:
        """Messages per second, from before the first send until the last reader has the last."""
        return Sample(1 / self._run(payload, self.count))

    def _fitting(self, each: float) -> int:
        return max(_LEAST_MESSAGES, min(_MOST_MESSAGES, int(self._seconds / each)))

    def _run(self, payload: Payload, count: int) -> float:
        """Seconds a message."""
        within = WITHIN
        with self._blame():
            for reader in self.readers:
                reader.order("receive", "q", self._look(payload), count)
            for reader in self.readers:
                reader.armed(within)
            self.writer.order("send", "q", payload, count)
            ends = [reader.answer(within) for reader in self.readers]
            start, sent = self.writer.answer(within)
        return max(1, max(ends, default=sent) - start) / 1e9 / count


class CopyLimit(Stream):
    """The limit's copy: a writer whose messages no process receives."""

    def start(self) -> None:
        """Make the one process."""
        self.writer = self._member("copier")
        self.writer.do(_SETUP, "make", "q", self._shape)


class RoundTrip(PeerProcesses):
    """Two processes and two queues; sampled by the median round trip in microseconds."""

    def __init__(
        self, factory: ProcessFactory, shape: QueueShape, seconds: float, *, checked: bool = True
    ) -> None:
        super().__init__(factory, shape, seconds, checked=checked)
        self._server: FactoryProcess
        self._returner: FactoryProcess

    def start(self) -> None:
        """Make both processes and both queues."""
        self._server, self._returner = self._member("server"), self._member("returner")
        self._connect("there", self._server, [self._returner])
        self._connect("back", self._returner, [self._server])

    def warm_up(self, payload: Payload) -> None:
        """Touch every slot both ways, then find out how many trips a sample needs.

        Raises:
            TooSlow: a sample would take too long.
        """
        inline = payload.size < self._shape.chunk_bytes
        each = sum(self._run(payload, 2)) / 2e6
        if inline and each * self._shape.chunks < _SLOWEST_SAMPLE:
            self._run(payload, self._shape.chunks + 2)
        self._each = each = min(self._run(payload, _LEAST_TRIPS)) / 1e6
        if each * _LEAST_TRIPS > _SLOWEST_SAMPLE:
            raise TooSlow(f"too slow to sample: {each:.2g} s a round trip")
        self.count = max(_LEAST_TRIPS, min(_MOST_TRIPS, int(self._seconds / each)))

    def sample(self, payload: Payload) -> Sample:
        """The median, with every trip."""
        trips = self._run(payload, self.count)
        return Sample(sorted(trips)[len(trips) // 2], trips)

    def _run(self, payload: Payload, count: int) -> list[float]:
        within = WITHIN
        with self._blame():
            self._returner.order("echo", "there", "back", self._look(payload), count)
            self._returner.armed(within)
            self._server.order("round_trips", "there", "back", payload, count, self._checked)
            trips = self._server.answer(within)
            self._returner.answer(within)
        return [trip / 1000 for trip in trips]


class IdleReader(Stream):
    """A stream of one reader that is idle most of the time."""

    def __init__(self, factory: ProcessFactory, shape: QueueShape, *, checked: bool = True) -> None:
        super().__init__(factory, shape, 0.0)
        self._checked = checked

    def wake(self, idle: float) -> Sample:
        """Microseconds from the send to the reader's having it, after that many idle seconds."""
        with self._blame():
            self._fall_asleep(idle)
            self.writer.order("send", "q", _SMALL, 1)
            end = self.readers[0].answer(30.0)
            start, _ = self.writer.answer(30.0)
        return Sample((end - start) / 1000)

    def _fall_asleep(self, idle: float) -> None:
        reader = self.readers[0]
        reader.order("receive", "q", self._look(_SMALL), 1)
        reader.armed(30.0)
        if not reader.is_silent(idle):
            raise NotMeasured("the idle reader returned before anything was sent")

    def start_idling(self) -> None:
        """Let the reader wait."""
        self._fall_asleep(0.0)

    def stop_idling(self) -> None:
        """Send it something."""
        with self._blame():
            self.writer.do(30.0, "send", "q", _SMALL, 1)
            self.readers[0].answer(30.0)

    def start_blocking(self) -> None:
        """Let the writer send more than there is room for."""
        self.writer.order("send", "q", _BLOCKING, _BLOCKED_COUNT)

    def stop_blocking(self) -> None:
        """Let the reader take it all.

        Raises:
            NotMeasured: the writer was not blocked at all.
        """
        if not self.writer.is_silent(0.0):
            raise NotMeasured(f"the writer was not blocked by {_BLOCKED_COUNT} unread messages")
        with self._blame():
            self.readers[0].order("receive", "q", self._look(_BLOCKING), _BLOCKED_COUNT)
            self.readers[0].armed(30.0)
            self.readers[0].answer(30.0)
            self.writer.answer(30.0)

    def used(self, who: str) -> float:
        """Processor seconds of the reader's or the writer's process so far."""
        return processor_seconds(self.writer.pid if who == "writer" else self.readers[0].pid)
