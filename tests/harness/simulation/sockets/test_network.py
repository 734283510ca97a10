from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import zmq

from killpoint.interfaces import Chooser
from killpoint.search.schedules.preemptions import Preemptions
from killpoint.search.schedules.replay import FixedSchedule
from killpoint.simulation.scheduler import Scheduler
from killpoint.simulation.sockets.socket_library import Sockets


def _nothing() -> None:
    """A fence where nothing is reordered."""


def _world(
    chooser: Chooser | None = None, *, late: bool = False, recording: bool = False
) -> tuple[Scheduler, Sockets]:
    world = Scheduler(chooser or FixedSchedule([]), late=late, recording=recording)
    return world, Sockets(world, _nothing)


def _pair(sockets: Sockets, **options: int) -> tuple[Any, Any]:
    """A publisher and a subscriber in different processes; its subscription is on its way."""
    context = sockets.Context()
    sockets.network.owner = "writer"
    pub = context.socket(zmq.PUB)
    for name, value in options.items():
        pub.setsockopt(getattr(zmq, name), value)
    pub.bind("ipc://x")
    sockets.network.owner = "reader"
    sub = context.socket(zmq.SUB)
    sub.setsockopt_string(zmq.SUBSCRIBE, "")
    sub.connect("ipc://x")
    sockets.network.owner = ""
    return pub, sub


def test_what_was_sent_before_the_subscription_arrived_is_for_nobody() -> None:
    world, sockets = _world()
    pub, sub = _pair(sockets)
    got: list[object] = []
    world.task("writer", lambda: pub.send(b"early"))
    world.task("reader", lambda: got.append(sub.poll(1000)))
    assert world.run().how == "done"
    assert (got, world.now) == ([0], 1.0)


def test_every_order_of_subscription_and_message_is_explored() -> None:
    outcomes: set[tuple[object, ...]] = set()
    search = Preemptions(2)
    for chooser in search:
        world, sockets = _world(chooser)
        pub, sub = _pair(sockets)
        got: list[object] = []

        def write(pub: Any = pub) -> None:
            for number in range(2):
                pub.send(b"%d" % number)

        def read(sub: Any = sub, got: list[object] = got) -> None:
            while sub.poll(10):
                got.append(sub.recv())

        world.task("writer", write)
        world.task("reader", read)
        world.run()
        outcomes.add(tuple(got))
    assert search.exhausted
    assert outcomes == {(), (b"1",), (b"0", b"1")}


def test_a_receiver_wakes_when_its_message_arrives_and_not_before() -> None:
    world, sockets = _world()
    pub, sub = _pair(sockets)
    sockets.network.flush()
    seen: list[tuple[bytes, float]] = []

    def write() -> None:
        world.wait(lambda: False, 3.0, "its pause")
        pub.send(b"a")

    world.task("reader", lambda: seen.append((sub.recv(), world.now)))
    world.task("writer", write)
    assert world.run().how == "done"
    assert seen == [(b"a", 3.0)]


def test_a_receive_gives_up_at_its_own_time() -> None:
    world, sockets = _world()
    _, sub = _pair(sockets)
    sub.setsockopt(zmq.RCVTIMEO, 700)
    ended: list[float] = []

    def read() -> None:
        with pytest.raises(zmq.Again):
            sub.recv()
        ended.append(world.now)

    world.task("reader", read)
    world.run()
    assert ended == [0.7]


def test_who_waits_for_what_never_comes_is_a_deadlock_that_names_it() -> None:
    world, sockets = _world()
    _, sub = _pair(sockets)
    world.task("reader", sub.recv)
    ending = world.run()
    assert (ending.how, ending.waiting) == ("deadlock", {"reader": "a message at reader's SUB"})


def _full(chooser: Chooser, pause: float) -> tuple[list[bytes], list[str]]:
    """Two messages through a pipe with room for one, the second after the first has left."""
    world, sockets = _world(chooser)
    pub, sub = _pair(sockets, SNDHWM=1)
    sockets.network.flush()
    got: list[bytes] = []

    def write() -> None:
        pub.send(b"0")
        world.wait(lambda: bool(got), None, "the first to arrive")
        if pause:
            world.wait(lambda: False, pause, "its pause")
        pub.send(b"1")

    def read() -> None:
        while sub.poll(1000):
            got.append(sub.recv())

    world.task("writer", write)
    world.task("reader", read)
    world.run()
    return got, sockets.network.dropped


@pytest.mark.parametrize(("pause", "outcomes"), [(0.0, {1, 2}), (0.01, {2})])
def test_room_may_be_overlooked_by_a_sender_that_has_just_listened(
    pause: float, outcomes: set[int]
) -> None:
    found: set[int] = set()
    for chooser in Preemptions(1):
        got, dropped = _full(chooser, pause)
        assert len(got) + len(dropped) == 2
        found.add(len(got))
    assert found == outcomes


def test_where_the_pipe_is_still_full_the_newer_message_is_dropped_and_told() -> None:
    _, sockets = _world(recording=True)
    pub, sub = _pair(sockets, SNDHWM=1)
    sockets.network.flush()
    for number in range(3):
        pub.send(b"%d" % number)
    sockets.network.flush()
    assert [sub.recv(), sub.poll(0)] == [b"0", 0]
    assert [told.split(" from ")[0] for told in sockets.network.dropped] == ["b'1'", "b'2'"]


@pytest.mark.parametrize("late", [False, True])
def test_time_passes_while_a_message_is_on_its_way_only_if_it_may_be_late(late: bool) -> None:
    arrivals: set[float] = set()
    for chooser in Preemptions(1):
        world, sockets = _world(chooser, late=late)
        pub, sub = _pair(sockets)
        sockets.network.flush()

        def write(world: Scheduler = world, pub: Any = pub) -> None:
            pub.send(b"a")
            world.wait(lambda: False, 5.0, "its pause")

        def read(world: Scheduler = world, sub: Any = sub) -> None:
            sub.recv()
            arrivals.add(world.now)

        world.task("writer", write)
        world.task("reader", read)
        world.run()
        assert late or not world.hurried
    assert arrivals == ({0.0, 5.0} if late else {0.0})


def test_a_message_carries_what_was_stored_before_it() -> None:
    world = Scheduler(FixedSchedule([]))
    fences: list[str] = []
    sockets = Sockets(world, lambda: fences.append(world.current))
    pub, sub = _pair(sockets)
    sockets.network.flush()
    world.task("writer", lambda: pub.send(b"a"))
    world.task("reader", sub.recv)
    world.run()
    assert fences == ["writer", "reader"]


@pytest.mark.parametrize(("linger", "got"), [(0, []), (None, [b"a"])])
def test_what_a_closed_socket_had_sent_arrives_if_it_lingers(
    linger: int | None, got: list[bytes]
) -> None:
    _, sockets = _world()
    pub, sub = _pair(sockets)
    sockets.network.flush()
    pub.send(b"a")
    pub.close(linger)
    sockets.network.flush()
    assert [sub.recv() for _ in range(bool(sub.poll(0)))] == got


def test_a_monitor_tells_of_an_end() -> None:
    _, sockets = _world()
    pub, sub = _pair(sockets)
    monitor = sub.get_monitor_socket(zmq.Event.DISCONNECTED)
    sockets.network.flush()
    assert not monitor.poll(0)
    pub.close(0)
    sockets.network.flush()
    assert len(monitor.recv_multipart()) == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda context: context.socket(zmq.ROUTER),
        lambda context: context.socket(zmq.SUB).setsockopt(zmq.CURVE_SERVER, 1),
        lambda context: context.socket(zmq.SUB).get_monitor_socket(),
    ],
)
def test_what_is_not_simulated_says_so(ask: Callable[[Any], object]) -> None:
    _, sockets = _world()
    with pytest.raises(NotImplementedError, match="simulated"):
        ask(sockets.Context())


def test_a_context_ends_once_its_sockets_are_closed() -> None:
    world, sockets = _world()
    context = sockets.Context()
    socket = context.socket(zmq.PAIR)
    world.task("one", context.term)
    assert world.run().how == "deadlock"
    socket.close()
    context.term()
    assert context.closed
