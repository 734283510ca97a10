"""Each claim is put to the simulated sockets and to the library itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from killpoint.search.schedules.replay import FixedSchedule
from killpoint.simulation.scheduler import Scheduler
from killpoint.simulation.sockets.socket_library import Sockets

PATIENCE = 5000


class Side:
    """Sockets of one kind, closed at the end."""

    def __init__(self, library: Any, settle: Callable[[], None]) -> None:
        self.library, self.settle = library, settle
        self.context = library.Context()
        self.sockets: list[Any] = []

    def socket(self, kind: int, **options: int) -> Any:
        socket = self.context.socket(kind)
        for name, value in options.items():
            socket.setsockopt(getattr(zmq, name), value)
        socket.setsockopt(zmq.RCVTIMEO, PATIENCE)
        self.sockets.append(socket)
        return socket

    def close(self) -> None:
        for socket in self.sockets:
            socket.close(linger=0)
        self.context.term()


@pytest.fixture(params=["library", "simulated"])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    if request.param == "library":
        made = Side(zmq, lambda: None)
    else:
        sockets = Sockets(Scheduler(FixedSchedule([])), lambda: None)
        made = Side(sockets, sockets.network.flush)
    yield made
    made.close()


def _published(side: Side, *topics: bytes, address: str = "inproc://x", **options: int) -> Any:
    """An XPUB and a SUB whose subscriptions it has seen."""
    pub = side.socket(zmq.XPUB, **{k: v for k, v in options.items() if k != "RCVHWM"})
    pub.bind(address)
    sub = side.socket(zmq.SUB, **{k: v for k, v in options.items() if k == "RCVHWM"})
    sub.connect(address)
    for topic in topics or (b"",):
        sub.setsockopt(zmq.SUBSCRIBE, topic)
        side.settle()
        assert pub.recv() == b"\1" + topic
    return pub, sub


def _all(socket: Any) -> list[bytes]:
    found: list[bytes] = []
    while socket.poll(0):
        found.append(socket.recv(zmq.NOBLOCK))
    return found


@pytest.mark.parametrize(("verbose", "seen"), [(0, [b"\1a"]), (1, [b"\1a", b"\1a"])])
def test_only_a_verbose_publisher_sees_a_second_subscription(
    side: Side, verbose: int, seen: list[bytes]
) -> None:
    pub = side.socket(zmq.XPUB, XPUB_VERBOSE=verbose)
    pub.bind("inproc://x")
    for _ in range(2):
        sub = side.socket(zmq.SUB)
        sub.connect("inproc://x")
        sub.setsockopt(zmq.SUBSCRIBE, b"a")
    assert _all(pub) == seen


def test_the_last_subscriber_that_goes_is_seen_to_go(side: Side) -> None:
    pub, first = _published(side, b"a")
    second = side.socket(zmq.SUB)
    second.connect("inproc://x")
    second.setsockopt(zmq.SUBSCRIBE, b"a")
    first.setsockopt(zmq.UNSUBSCRIBE, b"a")
    assert _all(pub) == []
    second.setsockopt(zmq.UNSUBSCRIBE, b"a")
    assert _all(pub) == [b"\0a"]


def test_one_of_two_like_subscriptions_is_enough(side: Side) -> None:
    pub, sub = _published(side, b"a", XPUB_VERBOSE=1)
    sub.setsockopt(zmq.SUBSCRIBE, b"a")
    assert pub.recv() == b"\1a"
    sub.setsockopt(zmq.UNSUBSCRIBE, b"a")
    pub.poll(0)
    pub.send(b"abc")
    assert _all(sub) == [b"abc"]


def test_messages_of_other_topics_and_of_before_never_come(side: Side) -> None:
    pub = side.socket(zmq.XPUB)
    pub.bind("inproc://x")
    sub = side.socket(zmq.SUB)
    sub.connect("inproc://x")
    pub.send(b"a0")
    sub.setsockopt(zmq.SUBSCRIBE, b"a")
    assert pub.recv() == b"\1a"
    for message in (b"b1", b"a1", b""):
        pub.send(message)
    assert _all(sub) == [b"a1"]


def test_beyond_both_limits_the_newest_are_dropped(side: Side) -> None:
    pub, sub = _published(side, SNDHWM=2, RCVHWM=2)
    for number in range(6):
        pub.send(b"%d" % number)
    assert _all(sub) == [b"0", b"1", b"2", b"3"]


def test_room_is_known_once_half_of_the_limit_was_taken(side: Side) -> None:
    pub, sub = _published(side, SNDHWM=2, RCVHWM=2)
    for number in range(4):
        pub.send(b"%d" % number)
    assert sub.recv() == b"0"
    pub.poll(0)  # it hears what there is to hear
    pub.send(b"too early")
    assert sub.recv() == b"1"
    pub.poll(0)
    pub.send(b"now")
    assert _all(sub) == [b"2", b"3", b"now"]


def test_a_limit_of_none_on_either_side_is_none(side: Side) -> None:
    pub, sub = _published(side, SNDHWM=0, RCVHWM=1)
    for number in range(50):
        pub.send(b"%d" % number)
    assert len(_all(sub)) == 50


def test_a_conflated_socket_keeps_the_newest_message_only(side: Side) -> None:
    pub = side.socket(zmq.XPUB, SNDHWM=1)
    pub.bind("inproc://x")
    sub = side.socket(zmq.SUB, CONFLATE=1)
    sub.setsockopt(zmq.SUBSCRIBE, b"")
    sub.connect("inproc://x")
    assert pub.recv() == b"\1"
    for number in range(5):
        pub.send(b"%d" % number)
    assert _all(sub) == [b"4"]


def test_parts_come_together_or_not_at_all(side: Side) -> None:
    pub, sub = _published(side, SNDHWM=1, RCVHWM=1)
    for number in range(3):
        pub.send_multipart([b"%d" % number, b"x" * 100, b""])
    assert sub.recv_multipart() == [b"0", b"x" * 100, b""]
    assert sub.recv() == b"1"
    assert sub.getsockopt(zmq.RCVMORE) == 1
    assert sub.recv_multipart() == [b"x" * 100, b""]
    assert sub.getsockopt(zmq.RCVMORE) == 0
    assert _all(sub) == []


def test_parts_sent_one_by_one_leave_with_the_last(side: Side) -> None:
    pub, sub = _published(side)
    pub.send(b"a", zmq.SNDMORE)
    assert not sub.poll(0)
    pub.send(b"b")
    assert sub.recv_multipart() == [b"a", b"b"]


@pytest.mark.parametrize(("size", "shared"), [(65536, True), (65535, False)])
def test_a_large_message_sent_without_a_copy_is_its_senders_memory(
    side: Side, size: int, shared: bool
) -> None:
    pub, sub = _published(side)
    mine = bytearray(size)
    pub.send(mine, copy=False)
    frame = sub.recv(copy=False)
    mine[0] = 7
    assert (frame.buffer[0] == 7) == shared


def test_a_pair_waits_where_both_limits_are_reached(side: Side) -> None:
    one, other = (side.socket(zmq.PAIR, SNDHWM=1, RCVHWM=1) for _ in range(2))
    one.bind("inproc://p")
    other.connect("inproc://p")
    one.send(b"0")
    one.send(b"1", zmq.NOBLOCK)
    with pytest.raises(zmq.Again):
        one.send(b"2", zmq.NOBLOCK)
    assert not one.poll(0, zmq.POLLOUT)
    assert other.recv() == b"0"
    assert one.poll(0, zmq.POLLOUT)
    one.send(b"3", zmq.NOBLOCK)
    assert _all(other) == [b"1", b"3"]


def test_a_pair_without_another_has_no_room(side: Side) -> None:
    alone = side.socket(zmq.PAIR)
    alone.bind("inproc://p")
    with pytest.raises(zmq.Again):
        alone.send(b"", zmq.NOBLOCK)


def test_who_connects_before_the_other_is_bound_is_connected_then(side: Side) -> None:
    sub = side.socket(zmq.SUB)
    sub.setsockopt_string(zmq.SUBSCRIBE, "")
    sub.connect("inproc://x")
    pub = side.socket(zmq.XPUB)
    pub.bind("inproc://x")
    assert pub.recv() == b"\1"
    pub.send(b"a")
    assert sub.recv() == b"a"


def test_a_poller_tells_which_socket_has_something(side: Side) -> None:
    pub, sub = _published(side)
    quiet = side.socket(zmq.SUB)
    quiet.connect("inproc://x")
    poller = side.library.Poller()
    for socket in (quiet, sub):
        poller.register(socket, zmq.POLLIN)
    assert poller.poll(0) == []
    pub.send(b"a")
    assert dict(poller.poll(PATIENCE)) == {sub: zmq.POLLIN}
    poller.unregister(sub)
    assert poller.poll(0) == []


def test_what_a_socket_cannot_do_is_an_error(side: Side) -> None:
    pub = side.socket(zmq.XPUB)
    pub.bind("inproc://x")
    sub = side.socket(zmq.SUB)
    sub.connect("inproc://x")
    with pytest.raises(zmq.Again):
        sub.recv(zmq.NOBLOCK)
    with pytest.raises(zmq.ZMQError, match="not supported"):
        sub.send(b"")
    with pytest.raises(zmq.ZMQError, match="in use"):
        side.socket(zmq.XPUB).bind("inproc://x")
    sub.close()
    with pytest.raises(zmq.ZMQError):
        sub.recv(zmq.NOBLOCK)


def test_between_processes_too_a_subscription_must_have_arrived(side: Side, tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/s"
    pub = side.socket(zmq.XPUB)
    pub.bind(address)
    pub.send(b"before")
    sub = side.socket(zmq.SUB)
    sub.setsockopt(zmq.SUBSCRIBE, b"")
    sub.connect(address)
    side.settle()
    assert pub.recv() == b"\1"
    pub.send_multipart([b"after", b"!"])
    side.settle()
    assert sub.recv_multipart() == [b"after", b"!"]
    assert _all(sub) == []


def test_between_processes_a_subscriber_that_closes_is_seen_to_go(
    side: Side, tmp_path: Path
) -> None:
    pub, sub = _published(side, address=f"ipc://{tmp_path}/s")
    sub.close(linger=0)
    side.settle()
    assert pub.recv() == b"\0"
