"""Payloads step by step: which is found, which dropped, and when nothing can come any more."""

import struct
import threading
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import zmq

from refengine.base.serialization import write_message
from refengine.queue import overflow
from refengine.queue.overflow import PayloadReceiver, PayloadSender


def frame(payload_id: int, *buffers: bytes) -> Any:
    raw = memoryview(bytearray(8 + 3 + sum(4 + len(b) for b in buffers)))
    struct.pack_into(">Q", raw, 0, payload_id)
    write_message(buffers, raw[8:])
    return SimpleNamespace(buffer=raw)


class Socket:
    """A socket whose frames are written down before; notes what it is asked."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.log: list[Any] = []
        self.closed = False
        self.monitor: Any = None

    def setsockopt(self, option: int, value: Any) -> None:
        self.log.append((option, value))

    def get_monitor_socket(self, events: int) -> Any:
        assert events == zmq.EVENT_DISCONNECTED
        self.monitor = Socket()
        return self.monitor

    def bind(self, address: str) -> None:
        self.log.append(("bind", address))

    def connect(self, address: str) -> None:
        self.log.append(("connect", address))

    def poll(self, timeout: int) -> bool:
        self.log.append(("poll", timeout))
        return bool(self.frames)

    def recv(self, flags: int = 0, copy: bool = True) -> Any:
        assert flags == zmq.NOBLOCK
        if not self.frames:
            raise zmq.Again
        return self.frames.pop(0)

    def send(self, data: Any, copy: bool = True) -> None:
        self.log.append(("send", bytes(data), copy))

    def disable_monitor(self) -> None:
        self.log.append("no monitor")

    def close(self, linger: int) -> None:
        self.log.append(("close", linger))
        self.closed = True


class Sockets:
    def __init__(self) -> None:
        self.made = Socket()
        self.ended = 0

    def context(self) -> Any:
        return SimpleNamespace(socket=lambda _: self.made, term=self.term)

    def term(self) -> None:
        self.ended += 1


class Poller:
    """Notes for how long one would sleep."""

    asked: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        self.sources: list[Any] = []

    def register(self, source: Any, events: int) -> None:
        assert events == zmq.POLLIN
        self.sources.append(source)

    def poll(self, timeout: int | None) -> None:
        self.asked.append((self.sources, timeout))


class Receiver(PayloadReceiver):
    def __init__(self) -> None:
        self.now, self.from_ = 100.0, Sockets()
        super().__init__(self.from_, lambda: self.now)
        self.fake: Any = self.socket
        self.fake.log.clear()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Receiver:
    monkeypatch.setattr(zmq, "Poller", Poller)
    Poller.asked = []
    return Receiver()


def test_a_subscriber_asks_for_everything_then_for_its_nonce(receiver: Receiver):
    receiver.connect("ipc://x", b"nonce")
    assert receiver.fake.log == [
        ("connect", "ipc://x"),
        (zmq.SUBSCRIBE, b""),
        (zmq.SUBSCRIBE, b"nonce"),
    ]
    receiver.connect("ipc://x", b"nonce")
    assert [entry[0] for entry in receiver.fake.log].count("connect") == 1


def test_neither_end_bounds_its_queue_or_connects_again():
    sockets = Sockets()
    PayloadReceiver(sockets)
    assert sockets.made.log == [(zmq.RCVHWM, 0), (zmq.RECONNECT_IVL, 86_400_000)]
    sockets = Sockets()
    PayloadSender("ipc://x", sockets)
    assert sockets.made.log == [
        (zmq.XPUB_VERBOSE, 1),
        (zmq.SNDHWM, 0),
        (zmq.LINGER, 0),
        ("bind", "ipc://x"),
    ]


def test_what_nobody_awaits_is_dropped_on_the_way(receiver: Receiver):
    receiver.fake.frames = [frame(n, b"%d" % n) for n in (1, 2, 3)]
    assert receiver.find(2) == [b"2"]
    assert receiver.find(2) == [b"2"]
    assert len(receiver._inbox) == 1
    receiver.forget()
    assert not receiver._inbox
    assert receiver.find(3) == [b"3"]


def test_one_that_is_overdue_is_not_waited_for_behind_a_later_one(receiver: Receiver):
    receiver.fake.frames = [frame(5, b"5")]
    assert receiver.find(4) is None
    receiver.forget()  # 5 was not the one found
    assert receiver.find(5) == [b"5"]


def test_nothing_there_is_none_without_a_sleep(receiver: Receiver):
    assert receiver.find(1) is None
    assert receiver.fake.log == [("poll", 0)]
    receiver.forget()


def test_a_thread_that_is_not_the_main_one_fetches_by_itself(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(overflow, "start_new_thread", lambda *_: pytest.fail("a thread"))
    receiver.fake.frames = [frame(1, b"1")]
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(receiver.find(1)))
    thread.start()
    thread.join(10)
    assert found == [[b"1"]]


@pytest.mark.parametrize(
    ("seconds", "slept"),
    [(None, None), (0, 1), (-1.0, 1), (0.5, 501), (2.0, 2001), (3e6, 2_000_000_001)],
)
def test_a_wait_hears_payloads_the_connection_and_the_vigil(
    receiver: Receiver, seconds: float | None, slept: int | None
):
    receiver.wait(9, seconds)
    assert Poller.asked == [([receiver.fake, receiver.fake.monitor, 9], slept)]
    assert not receiver.disconnected


def test_a_disconnection_is_two_frames_and_remembered(receiver: Receiver):
    receiver.fake.monitor.frames = ["event", "address"]
    receiver.wait(9, 0)
    assert receiver.disconnected
    assert receiver.fake.monitor.frames == []


def test_with_the_writer_gone_it_sleeps_a_second_at_most_then_concludes(receiver: Receiver):
    receiver.wait_gone(0.25)
    receiver.wait_gone(5.0)
    assert [slept for _, slept in Poller.asked] == [251, 1001]
    assert not receiver.is_empty()
    receiver.disconnected = True
    receiver.fake.log.clear()
    receiver.fake.frames = [frame(1, b"1")]
    receiver.wait_gone(5.0)
    assert receiver.fake.log == [("poll", 50)]
    assert not receiver.is_empty()
    assert receiver.find(1) == [b"1"]
    receiver.wait_gone(5.0)  # it is in the inbox
    assert not receiver.is_empty()
    receiver.forget()
    receiver.wait_gone(5.0)
    assert receiver.is_empty()
    assert len(Poller.asked) == 2


def test_without_a_conclusion_a_second_is_enough(receiver: Receiver):
    assert not receiver.is_empty()
    receiver.now += 0.99
    assert not receiver.is_empty()
    receiver.now = 101.0
    assert receiver.is_empty()


def test_a_receiver_closes_once_and_drops_everything(receiver: Receiver):
    receiver.close()
    receiver.close()
    assert receiver.fake.log == ["no monitor", ("close", 0)]
    assert receiver.fake.monitor.log == [("close", 0)]
    assert receiver.from_.ended == 1


# -- the writer's ---------------------------------------------------------------------------


class Sender(PayloadSender):
    def __init__(self) -> None:
        self.from_ = Sockets()
        super().__init__("ipc://x", self.from_, 3)
        self.fake: Any = self.socket
        self.fake.log.clear()


def test_payloads_are_numbered_from_one_and_sent_without_another_copy(
    monkeypatch: pytest.MonkeyPatch,
):
    asked: list[int] = []
    monkeypatch.setattr(overflow, "ensure_fds_available", asked.append)
    sender = Sender()
    assert sender.send([b"main"]) == (1, 11)
    assert sender.send([b"m", b"other"]) == (2, 17)
    assert asked == [16]
    assert sender.fake.log == [
        ("send", bytes(frame(1, b"main").buffer), False),
        ("send", bytes(frame(2, b"m", b"other").buffer), False),
    ]
    sender.close(0)


def test_subscriptions_stay_until_they_are_taken_away():
    sender = Sender()
    sender.fake.frames = [b"\1a", b"\1b"]
    heard = sender.subscriptions()
    assert list(heard) == [b"\1a", b"\1b"]
    heard.popleft()
    sender.fake.frames = [b"\1c"]
    assert list(sender.subscriptions()) == [b"\1b", b"\1c"]
    sender.subscriptions().clear()
    assert not sender.subscriptions()
    sender.close(0)


@pytest.mark.parametrize(("linger", "told"), [(0.0, 0), (1.5, 1500), (-1.0, 0)])
def test_a_close_lingers_as_long_as_it_may_once(linger: float, told: int):
    sender = Sender()
    assert len(sender._room._held) == 3
    sender.expect_readers(2)
    assert len(sender._room._held) == 2
    sender.close(linger)
    sender.close(9.0)
    assert sender.fake.log == [("close", told)]
    assert sender.from_.ended == 1
    assert sender._room._held == []
