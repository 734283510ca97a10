"""A turn of the shell, with a poller that the test holds: how long it waits, and what is due."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
import zmq

from refengine.base import ownership
from refengine.coordinator import CoordinatorSettings, EngineLink, Report, Start, State, protocol
from refengine.coordinator.links import BindAddress
from refengine.coordinator.protocol import Scale
from refengine.coordinator.server import CoordinatorServer

from .test_link_times import Left


class Poller:
    """Remembers for how long it was to wait, and finds what it is told."""

    def __init__(self) -> None:
        self.waited: list[float] = []
        self.found: list[tuple[object, int]] = []
        self.watched: list[tuple[object, int]] = []

    def register(self, what: object, events: int) -> None:
        self.watched.append((what, events))

    def poll(self, milliseconds: float) -> list[tuple[object, int]]:
        self.waited.append(milliseconds)
        return self.found


class Endless:
    """A socket that always has another message."""

    def __init__(self) -> None:
        self.given = 0

    def recv_multipart(self, _flags: int) -> list[bytes]:
        self.given += 1
        return [b"x"]


class Still:
    """A loop whose clock goes when it is told to, and whose poller finds what it is told."""

    def __init__(self, place: BindAddress) -> None:
        self.now = 100.0
        self.loop = CoordinatorServer(
            2, place, CoordinatorSettings(0.25, 1.0, 3.0), lambda: self.now
        )
        self.poller = Poller()
        self.loop._poller = self.poller
        self.drained: list[object] = []
        self.loop._drain = lambda socket, _hear: self.drained.append(socket)


@pytest.fixture
def still() -> Iterator[Still]:
    folder = ownership.new_directory()
    made = Still(BindAddress(str(folder)))
    yield made
    made.loop.close()
    ownership.remove_directory(folder)


def test_times_are_those_that_the_documentation_tells() -> None:
    assert asdict(CoordinatorSettings()) == {"interval": 0.1, "idle": 1.0, "peer_timeout": 3.0}
    assert inspect.signature(CoordinatorServer.turn).parameters["most"].default == 60.0


def test_a_turn_waits_until_something_is_due_and_no_longer_than_it_may(still: Still) -> None:
    loop, heartbeats = still.loop, still.loop._heartbeats
    assert loop.turn() == []
    assert loop.turn(most=0.125) == []
    loop._schedule.due = 102.0
    assert loop.turn() == []
    heartbeats.subscribed(1, 97.125)  # its silence is over at 100.125
    assert loop.turn() == []
    still.now = 100.5  # both are late
    assert loop.turn() == []
    assert still.poller.waited == [250, 125, 2000, 125, 0]
    assert loop.core.gone == {1}
    assert still.drained == []


def test_what_is_due_now_is_published_now(still: Still) -> None:
    still.now = 100.25
    still.loop.turn()
    assert still.loop._schedule.due == 101.25


def test_only_what_is_ready_is_drained_and_the_watched_are_told(still: Still) -> None:
    still.poller.found = [(still.loop._reports, zmq.POLLIN), (5, zmq.POLLIN), (7, zmq.POLLIN)]
    assert still.loop.turn() == [5, 7]
    assert still.drained == [still.loop._reports]


def test_who_is_given_up_is_named_in_the_log(
    still: Still, caplog: pytest.LogCaptureFixture
) -> None:
    still.loop._heartbeats.subscribed(1, 90.0)
    with caplog.at_level(logging.WARNING):
        still.loop.turn()
    assert caplog.messages == [
        "replica 1 was not heard of for too long: it counts as gone",
    ]


def test_of_one_socket_only_so_much_is_heard_before_the_others_have_their_turn(
    still: Still,
) -> None:
    heard: list[bytes] = []
    endless: Any = Endless()
    CoordinatorServer._drain(still.loop, endless, heard.append)
    assert (len(heard), endless.given) == (64, 64)


def test_what_was_not_taken_holds_no_loop_back(still: Still) -> None:
    mine, left = still.loop._context, Left()
    still.loop._context = left
    still.loop.close()
    still.loop._context = mine
    assert left.lingers == [0]


def test_a_flood_of_nonsense_fills_no_log(still: Still, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            still.loop._dropped.add("a word")
    assert still.loop.malformed == 9
    told = [f"a word made no sense and was dropped ({many} so far)" for many in (1, 2, 4, 8)]
    assert caplog.messages == told


def test_what_a_replica_said_in_part_is_counted_part_by_part(still: Still) -> None:
    still.loop.core.hear(Report(9))  # refused before: no part of what comes now
    still.loop._report(protocol.encode(Report(0, wants=-1, done=-1, counts=(1, 2))))
    assert still.loop.malformed == 2
    assert still.loop.core.counts[0] == (1, 2)


def test_counts_are_published_soon_if_they_are_others_than_before(still: Still) -> None:
    loop, report = still.loop, protocol.encode(Report(0, counts=(1, 2)))
    for due in (100.25, 101.0):
        loop._schedule.published(100.0)
        loop._report(report)
        assert loop._schedule.due == due


@pytest.mark.parametrize("frame", [b"\1", b"\1topic"])
def test_a_front_end_that_comes_is_told_soon(frame: bytes, still: Still) -> None:
    still.loop._schedule.published(100.0)
    still.loop._front_end(frame)
    assert (still.loop._schedule.due, still.loop.malformed) == (100.25, 0)


@pytest.mark.parametrize("frame", [b"\0", b"\0topic"])
def test_a_front_end_that_goes_is_no_news(frame: bytes, still: Still) -> None:
    still.loop._schedule.published(100.0)
    still.loop._front_end(frame)
    assert (still.loop._schedule.due, still.loop.malformed) == (101.0, 0)


@pytest.mark.parametrize(("engines", "size", "malformed"), [(3, 3, 0), (0, 2, 1)])
def test_a_scale_out_of_range_is_counted_and_no_other(
    engines: int, size: int, malformed: int, still: Still
) -> None:
    still.loop._front_end(protocol.encode(Scale(engines)))
    assert (still.loop.core.size, still.loop.malformed) == (size, malformed)


class Told:
    """A socket that remembers what it was to send."""

    def __init__(self) -> None:
        self.frames: list[Any] = []

    def send_multipart(self, frames: list[bytes]) -> None:
        self.frames.append(frames)


def test_replicas_are_told_at_each_publication_what_is_in_force(still: Still) -> None:
    starts: Any = Told()
    mine, still.loop._starts = still.loop._starts, starts
    still.loop._publish(100.0)
    still.loop.core.hear(Report(0, wants=0, work=True))
    still.loop._publish(100.0)
    still.loop._starts = mine
    told = [(topic, protocol.decode_published(frame)) for topic, frame in starts.frames]
    assert told == [
        (protocol.ALL_REPLICAS, State(0, False)),
        (protocol.ALL_REPLICAS, Start(0, (0, 1))),
    ]


def test_what_is_watched_is_polled_and_a_topic_of_nobodys_is_counted(still: Still) -> None:
    still.loop.watch(9)
    assert still.poller.watched == [(9, zmq.POLLIN)]
    for frame, malformed in ((b"\1*", 0), (b"\1x", 1)):
        still.loop._subscription(frame)
        assert still.loop.malformed == malformed


def test_a_replica_may_poll_for_what_it_is_told(still: Still) -> None:
    link = EngineLink(still.loop.addresses, 0)
    assert link.fileno() == link._starts.fileno()
    link.close()
