"""Both ends of a line's messages, with a hub and a spoke that only note things (Q5, Q6, Q18)."""

import select
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.cleanup import ReleaseStack
from refengine.base.event_waiter import EpollWaiter
from refengine.base.security import Keys
from refengine.base.serialization import Pickler, total_of, write_message
from refengine.errors import (
    Cancelled,
    DeadlinePassed,
    MessagesLost,
    PeerSilent,
    QueueClosed,
    RankRefused,
)
from refengine.queue import remote_fanout, remote_reader
from refengine.queue.remote_fanout import COUNT, GO, RemoteFanout, body_of
from refengine.queue.remote_reader import RemoteReader
from refengine.queue.settings import Settings
from refengine.transport import Gone


class Line:
    """Stands for a hub or a spoke."""

    address = "tcp://here:1"

    def __init__(self, *given: Any, **named: Any) -> None:
        self.given, self.named, self.log = given, named, list[Any]()
        self.reminders: list[Any] = []

    def broadcast(self, number: int, body: Any) -> None:
        self.log.append(("broadcast", number, bytes(body)))

    def post(self, rank: int, body: Any) -> None:
        self.log.append(("post", rank, *COUNT.unpack(body)))

    def remind(self, seconds: float, act: Any) -> None:
        self.reminders.append((seconds, act))

    def start(self) -> None:
        self.log.append("start")

    def close(self, seconds: float) -> None:
        self.log.append(("close", seconds))

    def cut(self) -> None:
        self.log.append("cut")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_fanout, "Server", Line)
    monkeypatch.setattr(remote_reader, "Client", Line)
    monkeypatch.setattr(remote_reader, "_probe", lambda _: None)


# -- the writer's side ----------------------------------------------------------------------


class Far(RemoteFanout):
    """Ranks 1 and 2, four messages apart at most."""

    def __init__(self, undo: ReleaseStack) -> None:
        self.waiter = EpollWaiter()
        undo.callback(self.waiter.close)
        self.settings = Settings(peer_timeout=7.0)
        super().__init__("here", (1, 2), 4, "keys", self.settings, self.waiter, undo)
        self.server: Any = self._server

    def rung(self) -> bool:
        """Whether its bell has rung since the last time."""
        rung = bool(select.select([self.waiter.fileno()], [], [], 0)[0])
        self.waiter.block(0)
        return rung


@pytest.fixture
def far() -> Iterator[Far]:
    with ReleaseStack() as undo:
        yield Far(undo)


def test_the_hub_listens_at_a_free_port_for_these_ranks(far: Far):
    assert far.server.given == ("here", 0, (1, 2), "keys", far)
    assert far.server.named == {
        "sockets": far.settings.sockets,
        "clock": far.settings.clock,
        "peer_timeout": 7.0,
    }
    assert far.address == "tcp://here:1"


def test_arrivals_are_rung_and_the_missing_named_in_order(far: Far):
    assert far.missing() == [1, 2]
    far.arrived(2)
    assert far.rung()
    assert far.missing() == [1]
    far.arrived(1)
    assert far.missing() == []


def test_a_wrong_claim_is_told_once(far: Far):
    assert far.refusal() is None
    far.refused(7, "unknown")
    assert far.rung()
    error = far.refusal()
    assert isinstance(error, RankRefused)
    assert error.facts[:2] == (7, "unknown")
    assert far.refusal() is None


def test_the_window_is_from_the_slowest_and_opens_with_its_count(far: Far):
    for number in range(4):
        assert far.has_room()
        far.post(number, bytearray(b"x"))
    assert not far.has_room()
    far.message(1, memoryview(COUNT.pack(4)))
    assert far.rung()
    assert not far.has_room()
    far.message(2, memoryview(COUNT.pack(1)))
    assert far.has_room()
    assert far.server.log == [("broadcast", number + 1, b"x") for number in range(4)]


def test_a_count_that_a_larger_one_has_overtaken_changes_nothing(far: Far):
    far.message(1, memoryview(COUNT.pack(4)))
    far.message(1, memoryview(COUNT.pack(3)))
    assert far._taken == {1: 4, 2: 0}


def test_what_is_no_count_is_not_heard(far: Far):
    far.message(1, memoryview(b"short"))
    assert not far.rung()
    assert far._taken == {1: 0, 2: 0}


def test_one_that_ended_is_told_once_and_holds_nobody_up(far: Far):
    for number in range(4):
        far.post(number, bytearray(b"x"))
    far.message(2, memoryview(COUNT.pack(4)))
    far.waiter.block(0)
    how = Gone("died")
    far.gone(1, how)
    assert far.rung()
    told: list[Any] = []
    far.news(lambda *end: told.append(end))
    far.news(lambda *end: told.append(end))
    assert told == [(1, how)]
    assert far.has_room()
    far.gone(2, how)
    far.news(lambda *_: None)
    assert far.posted == 4
    for number in range(4, 14):  # to nobody at all there is always room
        assert far.has_room()
        far.post(number, bytearray())


def test_an_exception_while_an_end_is_told_leaves_it_to_the_next_call(far: Far):
    far.gone(1, Gone("died"))
    with pytest.raises(ZeroDivisionError):
        far.news(lambda *_: 1 // 0)
    told: list[int] = []
    far.news(lambda rank, _: told.append(rank))
    assert told == [1]


def test_the_go_is_the_first_body_of_each_line(far: Far):
    far.go(lambda *_: None)
    far.shutdown(1.5)
    assert far.server.log == [("broadcast", 0, GO), ("close", 1.5)]


def test_after_the_go_an_end_is_told_to_whoever_sleeps(far: Far):
    told: list[int] = []
    far.gone(1, Gone("died"))
    far.go(lambda rank, _: told.append(rank))
    far.waiter.block(0)
    assert told == [1]
    far.gone(2, Gone("died"))
    far.waiter.block(5)
    assert told == [1, 2]


def test_a_body_is_a_copy_as_long_as_the_format_says():
    buffers = [b"main", memoryview(b"other")]
    body = body_of(buffers)
    assert len(body) == total_of([4, 5]) + 1
    expected = bytearray(len(body))
    write_message(buffers, memoryview(expected))
    assert body == expected


# -- the reader's side ----------------------------------------------------------------------


class Reader(RemoteReader):
    def __init__(self) -> None:
        self.now = 100.0
        settings = Settings(clock=lambda: self.now)
        handle: Any = SimpleNamespace(remote="tcp://there:1", keys=Keys.fresh(), peer_timeout=7.0)
        super().__init__(handle, 1, settings, ReleaseStack())
        self.client: Any = self._client
        self.slept: list[Any] = []
        self.turns: list[Any] = []
        self._waiter.block = self._block

    def _block(self, seconds: float | None) -> None:
        self.slept.append(seconds)
        if self.turns:
            self.turns.pop(0)()
        else:
            assert seconds is not None, "nothing will wake it"
            self.now += seconds

    def bring(self, *objects: object) -> None:
        for obj in objects:
            (main,) = Pickler(1 << 20).dumps(obj)
            self.message(0, memoryview(body_of([main])))

    def take(self, timeout: float | None = 0) -> Any:
        obj = self._next(timeout)
        self._undelivered = None
        return obj


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made._undo.close()


def rung(end: Reader) -> bool:
    return bool(select.select([end._waiter.fileno()], [], [], 0)[0])


def test_the_spoke_waits_for_its_welcome_as_long_as_for_signs_of_life(reader: Reader):
    assert reader.client.given == ("tcp://there:1", 1, reader.handle.keys, reader)
    named = reader.client.named
    assert (named["peer_timeout"], named["patience"]) == (7.0, 7.0)


def test_the_spoke_starts_with_the_hello(reader: Reader):
    assert reader.client.named["starts"] is False
    assert reader.client.log == []
    reader.say_hello()
    assert reader.client.log == ["start"]


def test_the_go_is_no_message_and_only_the_first_one_is_a_go(reader: Reader):
    assert reader._handshake_step(lambda: 1.5) is False
    assert reader.slept == [1.5]
    reader.message(0, memoryview(GO))
    assert rung(reader)
    assert reader._handshake_step(lambda: 1.5) is True
    assert reader.slept == [1.5]
    assert not reader._inbox
    reader.message(0, memoryview(GO))
    assert len(reader._inbox) == 1


@pytest.mark.parametrize(("left", "slept"), [(None, None), (-2.0, 0.0), (0.5, 0.5)])
def test_an_arrival_sleeps_as_long_as_it_may(reader: Reader, left: Any, slept: Any):
    reader.turns = [lambda: None]
    assert reader._handshake_step(lambda: left) is False
    assert reader.slept == [slept]


def test_a_refusal_is_raised_without_a_sleep(reader: Reader):
    reader.refused(1, "taken")
    assert rung(reader)
    with pytest.raises(RankRefused) as caught:
        reader._handshake_step(lambda: None)
    assert caught.value.facts[:2] == (1, "taken")
    assert reader.slept == []


def test_an_end_before_the_go_is_told_without_a_sleep(reader: Reader):
    reader.gone(0, Gone("silent", 3.0))
    assert rung(reader)
    with pytest.raises(PeerSilent) as caught:
        reader._handshake_step(lambda: None)
    assert caught.value.facts == ("writer", 3.0, "the writer's go")
    assert reader.slept == []


def test_a_stopped_end_arrives_nowhere_and_takes_nothing(reader: Reader):
    reader.bring("x")
    reader._waiter.stop()
    with pytest.raises(Cancelled, match="the writer's go"):
        reader._handshake_step(lambda: 0)
    with pytest.raises(Cancelled, match="a message"):
        reader._next(0)


def test_messages_come_in_order_and_the_writer_hears_when_nothing_is_left(reader: Reader):
    reader.bring("a", "b", "c")
    assert [reader.take() for _ in range(3)] == ["a", "b", "c"]
    assert reader.client.log == [("post", 0, 3)]
    assert reader.slept == []


def test_it_hears_after_every_fourth_while_there_are_more(reader: Reader):
    reader.bring(*range(11))
    for _ in range(11):
        reader.take()
    assert [count for _, _, count in reader.client.log] == [4, 8, 11]


def test_fewer_are_reported_soon_for_the_writer_may_wait(reader: Reader):
    reader.bring(*range(9))
    for number in range(2):
        assert reader.take() == number
        assert reader.client.log == []
    seconds, act = reader.client.reminders[0]
    assert seconds <= 0.05
    for _ in range(2):
        act()
        assert reader.client.log == [("post", 0, 2)]
    for _ in range(4):
        reader.take()
    act()
    assert [count for _, _, count in reader.client.log] == [2, 6]


def test_what_was_kept_is_given_again_and_counted_once(reader: Reader):
    reader.bring("a")
    assert reader._next(0) == "a"
    assert reader._next(0) == "a"
    assert reader.client.log == [("post", 0, 1)]
    reader.bring("b")
    reader._undelivered = None
    assert reader._next(0) == "b"


def test_what_was_kept_and_not_counted_is_copied_again(reader: Reader):
    reader.bring("a")
    reader._undelivered = 0, [b"struck before it was counted"]
    assert reader.take() == "a"


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_without_time_it_looks_once_more(reader: Reader, timeout: float):
    with pytest.raises(DeadlinePassed) as caught:
        reader._next(timeout)
    assert (caught.value.waiting_for, caught.value.seconds) == ("a message", timeout)
    assert reader.slept == [0]
    reader.turns = [lambda: reader.bring("x")]
    assert reader.take(timeout) == "x"


def test_it_sleeps_until_its_deadline(reader: Reader):
    def half() -> None:
        reader.now += 0.25

    reader.turns = [half]
    with pytest.raises(DeadlinePassed) as caught:
        reader._next(0.5)
    assert caught.value.seconds == 0.5
    assert reader.slept == [0.5, 0.25, 0]


def test_what_came_before_the_end_is_read_before_it(reader: Reader):
    reader.bring("x")
    reader.gone(0, Gone("closed"))
    assert reader.take() == "x"
    for _ in range(2):
        with pytest.raises(QueueClosed) as caught:
            reader._next(None)
        assert caught.value.who == "the writer"
    assert reader.slept == [0, 0]


def test_an_end_that_comes_during_the_sleep_is_told_after_another_look(reader: Reader):
    reader.turns = [lambda: reader.gone(0, Gone("closed")), lambda: reader.bring("x")]
    assert reader.take(None) == "x"
    assert reader.slept == [None, 0]


def test_what_was_lost_is_told_once_before_the_end(reader: Reader):
    reader.gone(0, Gone("closed", lost=3))
    with pytest.raises(MessagesLost) as caught:
        reader._next(None)
    assert caught.value.count == 3
    with pytest.raises(QueueClosed):
        reader._next(None)


def test_a_call_that_was_cancelled_leaves_what_was_lost_to_be_told(reader: Reader):
    cancelled: list[Any] = [lambda what: Cancelled(what, "a token")]
    reader._waiter.fault = lambda: cancelled.pop() if cancelled else None
    reader.gone(0, Gone("closed", lost=3))
    with pytest.raises(Cancelled):
        reader._next(None)
    with pytest.raises(MessagesLost) as caught:
        reader._next(None)
    assert caught.value.count == 3


def test_a_goodbye_has_half_of_the_time(reader: Reader):
    reader._shutdown(3.0)
    assert reader.client.log == [("close", 1.5)]


# -- the probe ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "where"),
    [("tcp://10.0.0.1:42", ("10.0.0.1", 42)), ("tcp://[::1]:42", ("::1", 42))],
)
def test_a_probe_connects_for_two_seconds_and_closes(
    monkeypatch: pytest.MonkeyPatch, address: str, where: tuple[str, int]
):
    monkeypatch.undo()
    asked: list[Any] = []

    def connect(*given: Any) -> Any:
        asked.append(given)
        return SimpleNamespace(close=lambda: asked.append("closed"))

    monkeypatch.setattr(remote_reader.socket, "create_connection", connect)
    remote_reader._probe(address)
    assert asked == [(where, 2.0), "closed"]
