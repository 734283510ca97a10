"""The writer's end, step by step, with readers that only note what they are told (Q5, Q6, R9)."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from refengine.base.cleanup import ReleaseStack
from refengine.base.serialization import total_of
from refengine.errors import (
    DeadlinePassed,
    PeerDied,
    PeerSilent,
    QueueClosed,
    RankRefused,
)
from refengine.queue.chunking import SOCKET_SPEED, ChunkingConfig
from refengine.queue.settings import Settings
from refengine.queue.writer import Writer
from refengine.ring.writer import LARGE
from refengine.transport import Gone

CHUNK = 1000


class Vigil:
    """Notes each look and sleep; what happens during one is written down before."""

    def __init__(self, log: list[Any]) -> None:
        self.log, self.turns, self.permanent_error, self.has_error = (
            log,
            list[Callable[[], Any]](),
            None,
            False,
        )

    def block(self, seconds: float | None) -> None:
        self.log.append(("block", seconds))
        if self.turns:
            self.turns.pop(0)()

    def fault(self) -> Any:
        return self.permanent_error

    def set_error(self, fault: Any) -> None:
        self.permanent_error, self.has_error = fault, True


class Remote:
    """Stands for `RemoteFanout`."""

    def __init__(self, log: list[Any]) -> None:
        self.log, self.room, self.posted = log, True, 0
        self.ends: list[tuple[int, Gone]] = []
        self.absent: list[int] = []
        self.wrong: RankRefused | None = None

    def has_room(self) -> bool:
        return self.room

    def has_news(self) -> bool:
        return bool(self.ends or self.wrong)

    def news(self, gone: Callable[[int, Gone], None]) -> None:
        while self.ends:
            gone(*self.ends.pop(0))

    def post(self, number: int, body: bytearray) -> None:
        self.log.append(("post", number, bytes(body)))
        self.posted = number + 1

    def refusal(self) -> RankRefused | None:
        return self.wrong

    def missing(self) -> list[int]:
        return list(self.absent)

    def go(self, gone: Any) -> None:
        self.log.append("remote go")
        self.told = gone

    def shutdown(self, seconds: float) -> None:
        self.log.append(("remote part", seconds))


class Side:
    """Stands for the ring's writing half."""

    def __init__(self, log: list[Any]) -> None:
        self.log, self.number, self.settled, self.full, self.read = log, 0, 0, False, True

    def claim(self, timeout: float | None, large: bool = False) -> memoryview | None:
        self.log.append(("claim", timeout, large))
        return None if self.full else memoryview(bytearray(CHUNK))

    def send(self, main: bytes, timeout: float | None) -> bool:
        self.log.append(("send", main, timeout))
        return not self.full

    def recover(self) -> int:
        return self.settled

    def all_read(self) -> bool:
        return self.read


class Local:
    """Stands for `LocalFanout`."""

    def __init__(self, log: list[Any], side: Side) -> None:
        self.log, self.side = log, side
        self.left, self.absent, self.forgotten = set[int](), list[int](), list[int]()

    def publish(self, buffers: Any, total: int, chunk: memoryview) -> None:
        self.log.append(("publish", len(buffers), total))
        self.side.settled = self.side.number = self.side.number + 1

    def handshake_step(self, left: Callable[[], float | None]) -> bool:
        self.log.append(("arrive", left()))
        return not self.absent

    def missing(self) -> list[int]:
        return list(self.absent)

    def go(self, gone: Any) -> None:
        self.log.append("local go")
        self.told = gone

    def has_left(self, rank: int) -> bool:
        return rank in self.left

    def forget(self, rank: int) -> None:
        self.forgotten.append(rank)

    def shutdown(self, seconds: float) -> None:
        self.log.append(("local part", seconds))


class NotingWriter(Writer):
    """With local readers, remote ones, or both; time stands still unless it is set."""

    now = 100.0

    def __init__(self, who: str = "both", n: int = 3, **settings: Any) -> None:
        parcel = Settings(clock=lambda: self.now, **settings)
        with ReleaseStack() as undo:
            super().__init__(n, (), CHUNK, 8, "127.0.0.1", parcel, undo)
        self.log: list[Any] = []
        self.waiter = self._waiter = Vigil(self.log)
        self.remote, self.side = Remote(self.log), Side(self.log)
        self.local = Local(self.log, self.side)
        self._remote = self.remote if who != "local" else None
        self._local = self.local if who != "remote" else None
        self._ring_writer = self.side if who != "remote" else None
        self._inline_below = CHUNK if who == "local" else 0
        self.refusal_error, self.ready, self._closed = None, True, False
        self._next_poll = self.now + 1

    def given(self, *kinds: str) -> list[Any]:
        """What was noted of these kinds."""
        return [each for each in self.log if (each if isinstance(each, str) else each[0]) in kinds]


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nobody:
        address = "tcp://here:1"

        def __init__(self, *_: Any) -> None:
            pass

    monkeypatch.setattr("refengine.queue.writer.RemoteFanout", Nobody)


def test_a_large_message_is_claimed_as_such_and_published_with_its_total():
    end = NotingWriter("local")
    end.enqueue([b"x" * 20_000], 1.0)
    assert len(end.given("claim")) == 1
    ((_, count, total),) = end.given("publish")
    assert count == 1
    assert total > 20_000


def test_the_news_are_looked_for_every_millisecond_or_when_alarmed():
    end = NotingWriter("local")
    end.enqueue(b"x", 0)
    assert end.given("block") == []
    end.now = end._next_poll
    end.enqueue(b"x", 0)
    assert end.given("block") == [("block", 0)]
    assert end._next_poll == end.now + 0.001
    end.waiter.has_error = True
    end.enqueue(b"x", 0)
    assert len(end.given("block")) == 2
    end.waiter.permanent_error = QueueClosed
    with pytest.raises(QueueClosed, match="enqueue"):
        end.enqueue(b"x", 0)
    assert len(end.given("send")) == 3


# -- with remote readers --------------------------------------------------------------------


def test_a_message_is_published_locally_then_posted_with_its_number():
    end = NotingWriter()
    for number in range(2):
        end.enqueue(b"x", 1.0)
        assert end.given("claim", "publish", "post")[-3:] == [
            ("claim", 1.0, 0),
            ("publish", 1, 12),
            ("post", number, end.given("post")[-1][2]),
        ]
    assert end._unsent_remote is None


def test_a_large_one_is_claimed_as_such_there_too():
    end = NotingWriter()
    end.enqueue({"a": memory(20_000)}, 1.0)
    assert end.given("claim") == [("claim", 1.0, (4 << 20) // 20_055)]


def memory(nbytes: int) -> Any:
    import numpy as np

    return np.zeros(nbytes, np.uint8)


@pytest.mark.parametrize("timeout", [0.0, 1.5])
def test_a_full_ring_is_told_before_anything_is_posted(timeout: float):
    end = NotingWriter()
    end.side.full = True
    with pytest.raises(DeadlinePassed) as caught:
        end.enqueue(b"x", timeout)
    assert (caught.value.waiting_for, caught.value.seconds) == ("a free slot", timeout)
    assert end.given("post") == []
    assert end._unsent_remote is None


@pytest.mark.parametrize("published", [False, True])
def test_what_was_half_done_is_posted_by_the_next_call_if_it_was_published(published: bool):
    end = NotingWriter()
    end._unsent_remote = 4, bytearray(b"half")
    end.side.settled = 4 + published
    end._flush_remote()
    assert end.given("post") == ([("post", 4, b"half")] if published else [])
    assert end._unsent_remote is None
    end._flush_remote()
    assert len(end.given("post")) == published


def test_room_is_waited_for_in_sleeps_until_the_deadline():
    end = NotingWriter("remote")
    end.remote.room = False

    def pass_half() -> None:
        end.now += 0.5

    end.waiter.turns = [pass_half, pass_half]
    with pytest.raises(DeadlinePassed) as caught:
        end.enqueue(b"x", 1.0)
    assert end.given("block") == [("block", 1.0), ("block", 0.5), ("block", 0)]
    assert caught.value.waiting_for == "a remote reader to take a message"
    assert caught.value.seconds == 1.0
    assert end.given("post") == []


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_without_time_room_is_looked_for_once(timeout: float):
    end = NotingWriter("remote")
    end.remote.room = False
    with pytest.raises(DeadlinePassed) as caught:
        end.enqueue(b"x", timeout)
    assert caught.value.seconds == timeout
    assert end.given("block") == [("block", 0)]
    end.waiter.turns = [lambda: setattr(end.remote, "room", True)]
    end.remote.room = False
    end.enqueue(b"x", timeout)
    assert len(end.given("post")) == 1


def test_an_end_that_comes_while_it_waits_for_room_is_told():
    end = NotingWriter("remote")
    end.remote.room = False
    end.waiter.turns = [lambda: end.remote.ends.append((1, Gone("silent", 3.0)))]
    with pytest.raises(PeerSilent, match="reader 1") as caught:
        end.enqueue(b"x", None)
    assert caught.value.waiting_for == "a remote reader to take a message"


# -- pieces ---------------------------------------------------------------------------------


def pieces(who: str = "local", *, kept: bool = True) -> NotingWriter:
    end = NotingWriter(who, chunking=ChunkingConfig(least=200, piece=100, soon=50, room=100))
    end.side.read = kept
    return end


@pytest.mark.parametrize(
    ("nbytes", "buffers", "kept", "whether"),
    [
        (199, 2, True, False),
        (200, 2, True, True),
        (200, 2, False, True),  # the readers' pace sets the pieces, later
        (CHUNK - 127, 2, True, True),
        (CHUNK - 126, 2, True, False),
        (CHUNK, 2, True, False),
        (CHUNK + 1, 2, True, True),
        (CHUNK + 1, 2, False, False),
        (7 * (CHUNK - 127), 2, True, True),
        (7 * (CHUNK - 127) + 1, 2, True, False),
    ],
)
def test_whether_it_goes_in_pieces(nbytes: int, buffers: int, kept: bool, whether: bool):
    end = pieces(kept=kept)
    parts = [b"p"] * buffers
    assert end._is_chunked(end.side, parts, nbytes, 0.0) is whether


class Ways:
    """Says which way to go, and keeps how it went."""

    def __init__(self, *, warm: bool) -> None:
        self.warm, self.went = warm, list[Any]()

    def use_hot_chunks(self) -> bool:
        return self.warm

    def record(self, warm: bool, nbytes: int, seconds: float) -> None:
        self.went.append((warm, nbytes, seconds))


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("nbytes", [500, LARGE])
def test_a_large_array_goes_the_way_that_was_faster(
    monkeypatch: pytest.MonkeyPatch, nbytes: int, warm: bool
):
    end, sent = pieces(), list[int]()
    monkeypatch.setattr("refengine.queue.writer.write_chunked", lambda *a: sent.append(a[2]))
    end._inline_below = 2 * LARGE
    ways: Any = Ways(warm=warm)
    end._hot_chunks = ways
    total = total_of([1, nbytes])
    end._publish([b"p", bytes(nbytes)], total, 1.0)
    chosen = nbytes == LARGE
    assert ways.went == ([(warm, total, 0.0)] if chosen else [])
    assert bool(sent) is (warm or not chosen)
    assert end.given("claim") == [("claim", 1.0, 3 if sent else 0)]


@pytest.mark.parametrize(("buffers", "room"), [(1, 2 * LARGE), (2, LARGE)])
def test_others_have_no_way_to_choose(monkeypatch: pytest.MonkeyPatch, buffers: int, room: int):
    monkeypatch.setattr("refengine.queue.writer.write_chunked", lambda *_: None)
    end = pieces(kept=False)
    end._inline_below = room
    ways: Any = Ways(warm=False)
    end._hot_chunks = ways
    parts = [b"p", bytes(LARGE)][-buffers:]
    end._publish(parts, total_of([len(part) for part in parts]), 1.0)
    assert ways.went == []


def test_what_was_waited_for_does_not_count_as_filling(monkeypatch: pytest.MonkeyPatch):
    end = pieces()
    end._inline_below = 2 * LARGE
    ways: Any = Ways(warm=True)
    end._hot_chunks = ways

    def publish(*_: object) -> None:
        end.now += 5.0
        end._pace.waited = 3.0

    monkeypatch.setattr("refengine.queue.writer.write_chunked", publish)
    end._publish([b"p", bytes(LARGE)], total_of([1, LARGE]), 1.0)
    assert [seconds for *_, seconds in ways.went] == [2.0]


def test_how_long_readers_are_waited_for_depends_on_the_other_way(
    monkeypatch: pytest.MonkeyPatch,
):
    end, begun = pieces(), []
    monkeypatch.setattr(end._pace, "begin", lambda *given: begun.append(given))
    end._is_chunked(end.side, [b"p"] * 2, CHUNK, 1.0)
    end._is_chunked(end.side, [b"p"] * 2, CHUNK + 1, 1.0)
    assert begun == [(CHUNK, 1.0), (CHUNK + 1, 1.0, SOCKET_SPEED)]


# -- arrivals and ends ----------------------------------------------------------------------


def rounds(end: NotingWriter, seconds: float | None = 3.0) -> bool:
    return end._handshake_step(lambda: seconds)


def test_all_are_told_to_go_once_all_are_there():
    end = NotingWriter()
    assert rounds(end) is True
    assert end.log == [("arrive", 0), ("block", 0), "remote go", "local go"]
    assert end.local.told == end._local_gone


def test_without_local_readers_the_vigil_is_slept_at():
    end = NotingWriter("remote")
    end.remote.absent = [1]
    end.waiter.turns = [end.remote.absent.clear]
    assert rounds(end, None) is True
    assert end.log == [("block", None), "remote go"]
    assert end.remote.told == end._remote_gone


def test_a_wrong_claim_ends_the_rendezvous():
    end = NotingWriter()
    end.local.absent = [1]
    end.remote.wrong = RankRefused(7, "unknown")
    with pytest.raises(RankRefused) as caught:
        rounds(end)
    assert caught.value is end.remote.wrong
    assert end.given("arrive") == [("arrive", 0)]


def test_a_remote_reader_that_leaves_before_the_go_is_an_error():
    end = NotingWriter()
    end.local.absent = [1]
    end.remote.ends.append((2, Gone("died", pid=9)))
    with pytest.raises(PeerDied, match="reader 2") as caught:
        rounds(end)
    assert caught.value.waiting_for == "the rendezvous"
    assert end.given("arrive") == [("arrive", 0)]


def test_a_fault_during_the_rendezvous_names_who_is_missing():
    end = NotingWriter()
    end.local.absent = [1]
    end.waiter.permanent_error = QueueClosed
    with pytest.raises(QueueClosed, match=r"readers \[1\] to arrive"):
        rounds(end)


class Peer:
    role, pid = "reader 1", 77

    def __init__(self) -> None:
        self.asked: list[float] = []

    def is_dead(self, seconds: float) -> bool:
        self.asked.append(seconds)
        return True

    def signal(self) -> int:
        return 9


def error_of(end: NotingWriter) -> Exception:
    assert end.waiter.permanent_error is not None
    return end.waiter.permanent_error("x")


def test_a_dead_local_reader_is_an_error_with_its_signal(caplog: pytest.LogCaptureFixture):
    end, peer = NotingWriter(), Peer()
    with caplog.at_level(logging.WARNING):
        end._local_gone(1, peer)
    error = error_of(end)
    assert isinstance(error, PeerDied)
    assert error.facts[:4] == ("reader 1", 77, "x", 9)
    assert peer.asked == [0.05]
    assert end.local.forgotten == []
    assert "reader 1 (pid 77) is gone without a goodbye" in caplog.text


def test_by_policy_the_dead_are_forgotten_until_nobody_is_left():
    end = NotingWriter(n=2, reader_policy="continue")
    end._local_gone(1, Peer())
    assert end.local.forgotten == [1]
    assert end.waiter.permanent_error is None
    end._remote_gone(0, Gone("silent", 2.0))
    error = error_of(end)
    assert isinstance(error, PeerSilent)
    assert error.facts == ("reader 0", 2.0, "x")


def test_a_dead_remote_reader_is_an_error_and_logged(caplog: pytest.LogCaptureFixture):
    end = NotingWriter()
    with caplog.at_level(logging.WARNING):
        end._remote_gone(0, Gone("died", pid=5))
    error = error_of(end)
    assert isinstance(error, PeerDied)
    assert error.facts[:3] == ("reader 0", 5, "x")
    assert "reader 0 is gone without a goodbye: died" in caplog.text


def test_a_goodbye_gives_the_lines_their_share_and_the_payloads_what_is_left():
    end = NotingWriter()
    part = end.remote.shutdown

    def slow(seconds: float) -> None:
        part(seconds)
        end.now += 2.0

    end.remote.shutdown = slow
    end._unsent_remote = 0, bytearray(b"half")
    end.side.settled = 1
    end._shutdown(10.0)
    assert end.log == [("post", 0, b"half"), ("remote part", 6.0), ("local part", 6.0)]
    end.log.clear()
    end._shutdown(1.0)
    assert end.log[-1] == ("local part", 0.0)
