"""A local reader's end, step by step, with a ring and payloads that are written down before."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.buffer_pool import BufferPool
from refengine.base.event_waiter import EpollWaiter
from refengine.base.serialization import Pickler, write_message, write_overflow_marker
from refengine.errors import (
    Cancelled,
    DeadlinePassed,
    MessagesLost,
    PeerDied,
    QueueClosed,
)
from refengine.queue import reader as reader_module
from refengine.queue.chunking import _HEAD, Reassembler
from refengine.queue.reader import LocalReader

OVERFLOW, FRAGMENT = 1, 2


def inline(*buffers: bytes) -> memoryview:
    chunk = memoryview(bytearray(200))
    write_message(buffers, chunk)
    return chunk


def marked(payload_id: int) -> memoryview:
    chunk = memoryview(bytearray(200))
    write_overflow_marker(chunk, payload_id, 1)
    return chunk


def pieces(*buffers: bytes, cut: int = 9) -> list[memoryview]:
    whole = bytes(inline(*buffers))[: 3 + sum(4 + len(b) for b in buffers)]
    found: list[memoryview] = []
    for start in range(0, len(whole), cut):
        part = whole[start : start + cut]
        chunk = memoryview(bytearray(64 + cut))
        _HEAD.pack_into(chunk, 0, FRAGMENT, start, len(part), len(whole), 64)
        chunk[64 : 64 + len(part)] = part
        found.append(chunk)
    return found


class Side:
    """The ring's reading half: chunks to come; a claim on none uses up its time."""

    def __init__(self, reader: "Reader", *chunks: memoryview) -> None:
        self.reader, self.chunks = reader, list(chunks)
        self.number, self.log, self.settled = 0, list[Any](), 0
        self.seconds_a_claim = 0.0
        self.wake_writer: Callable[[], Any] = lambda: self.log.append("ring")

    def claim(self, seconds: float | None) -> memoryview | None:
        self.log.append(("claim", seconds))
        if not self.chunks:
            return None
        self.reader.now += self.seconds_a_claim
        return self.chunks[0]

    def release_slot(self) -> None:
        self.log.append("done")
        self.chunks.pop(0)
        self.number += 1

    def recover(self) -> None:
        self.settled += 1

    def unread_chunks(self) -> list[memoryview]:
        return self.chunks


class Payloads:
    """Payloads by their id; what happens during a wait is written down before."""

    def __init__(self) -> None:
        self.there: dict[int, list[bytes]] = {}
        self.turns: list[Callable[[], Any]] = []
        self.log: list[Any] = []
        self.empty = False

    def find(self, payload_id: int) -> list[bytes] | None:
        return self.there.get(payload_id)

    def forget(self) -> None:
        self.log.append("forget")

    def is_empty(self) -> bool:
        return self.empty

    def wait(self, fd: int, seconds: float | None) -> None:
        self.log.append(("wait", seconds))
        self.turns.pop(0)()

    def wait_gone(self, seconds: float) -> None:
        self.log.append(("wait_gone", seconds))
        self.turns.pop(0)()


class Reader(LocalReader):
    """Ready, with time that stands still unless it is set."""

    def __init__(self, *chunks: memoryview) -> None:  # not the real one's: no ring, no door
        self.now = 100.0
        self._clock = lambda: self.now
        self._waiter = EpollWaiter(self._clock)
        self.side = self._ring_reader = Side(self, *chunks)
        self.payloads = self._payloads = Payloads()
        self.left = False
        self._ring: Any = SimpleNamespace(
            writer_left=lambda: self.left,
            say_left=lambda: self.side.log.append("left"),
            reader=self.side,
        )
        self._memory = BufferPool()
        self._assembly = Reassembler(self._memory)
        self._undelivered, self._has_side_data, self._loss_reported = None, False, False
        self._joined = False
        self.handle: Any = SimpleNamespace(door="/nowhere/here/door", overflow="/nowhere/here/o")
        self._segment_name = "no such segment"


@pytest.fixture
def reader():
    made: list[Reader] = []

    def make(*chunks: memoryview) -> Reader:
        made.append(Reader(*chunks))
        return made[-1]

    yield make
    for each in made:
        each._waiter.close()


def dumped(obj: object) -> bytes:
    (main,) = Pickler(1 << 20).dumps(obj)
    return bytes(main)


Make = Callable[..., Reader]


def test_what_was_kept_is_given_again_and_no_further_one_is_taken(reader: Make):
    end = reader(inline(dumped("x")), inline(dumped("y")))
    end._next(0)
    assert end._next(0) == "x"  # its caller did not get it
    assert end.side.settled == 1
    assert end.side.log.count("done") == 1
    end._undelivered = None
    assert end._next(0) == "y"


def test_what_was_kept_and_not_given_back_is_copied_again(reader: Make):
    end = reader(inline(dumped("x")))
    end._undelivered = 0, [dumped("struck before it was given back")]
    assert end._next(0) == "x"
    assert end.side.log == [("claim", 0), "done"]


def test_a_stopped_end_takes_nothing_though_there_is_something(reader: Make):
    end = reader(inline(dumped("x")))
    end._waiter.stop()
    with pytest.raises(Cancelled, match="a message"):
        end._next(0)
    assert end.side.log == []


def test_pieces_are_taken_one_after_the_other_within_one_deadline(reader: Make):
    end = reader(*pieces(b"main", b"one"))
    end.side.seconds_a_claim = 1.0
    assert end._copy(9.0) == [b"main", b"one"]
    assert end.side.log == [("claim", 9.0), "done", ("claim", 8.0)]
    other = reader(*pieces(b"main", b"one"))
    assert other._copy(None) == [b"main", b"one"]
    assert other.side.log == [("claim", None), "done", ("claim", None)]


def test_a_deadline_between_two_pieces_is_told_with_the_whole_time(reader: Make):
    end = reader(pieces(b"main", b"one")[0])
    with pytest.raises(DeadlinePassed) as caught:
        end._copy(1.5)
    assert caught.value.seconds == 1.5
    end.side.chunks = pieces(b"main", b"one")[1:]
    assert end._copy(0) == [b"main", b"one"]  # the first piece is still there


# -- payloads -------------------------------------------------------------------------------


def test_a_payload_is_awaited_by_the_id_in_its_marker_then_forgotten(reader: Make):
    end = reader(marked(7))
    end.payloads.there = {7: [dumped("x")]}
    assert end._next(0) == "x"
    assert end.payloads.log == ["forget"]
    assert not end._has_side_data
    assert end.side.log == [("claim", 0), "done"]
    end.side.chunks = [inline(dumped("y"))]
    end._undelivered = None
    assert end._next(0) == "y"
    assert end.payloads.log == ["forget"]


def test_the_news_are_looked_at_without_a_sleep_before_each_look(reader: Make):
    end = reader(marked(7))
    blocks: list[float | None] = []
    end._waiter.block = blocks.append
    end.payloads.turns = [lambda: end.payloads.there.update({7: [dumped("x")]})]
    end._next(None)
    assert blocks == [0, 0]


@pytest.mark.parametrize("timeout", [0, -1.0, 0.5])
def test_a_payload_that_does_not_come_is_told_and_its_slot_stays(reader: Make, timeout: float):
    end = reader(marked(7))

    def rest() -> None:
        end.now += 0.5

    end.payloads.turns = [rest]
    with pytest.raises(DeadlinePassed) as caught:
        end._next(timeout)
    assert (caught.value.waiting_for, caught.value.seconds) == ("an overflow payload", timeout)
    assert end.payloads.log == ([("wait", 0.5)] if timeout > 0 else [])
    assert "done" not in end.side.log


def test_a_cancel_is_told_though_the_writer_is_at_work(reader: Make):
    end = reader(marked(7))
    end.payloads.turns = [end._waiter.stop]
    with pytest.raises(Cancelled, match="an overflow payload"):
        end._next(None)


def dead(end: Reader) -> None:
    end._waiter.set_error(lambda w: PeerDied("writer", 9, w))


def test_with_the_writer_dead_payloads_that_may_still_come_are_waited_for(reader: Make):
    end = reader(marked(7))
    dead(end)
    end.payloads.turns = [lambda: end.payloads.there.update({7: [dumped("x")]})]
    assert end._next(None) == "x"
    assert end.payloads.log == [("wait_gone", 1.0), "forget"]
    other = reader(marked(7))
    dead(other)
    other.payloads.turns = [lambda: other.payloads.there.update({7: [dumped("x")]})]
    assert other._next(0.25) == "x"
    assert other.payloads.log[0] == ("wait_gone", 0.25)


def test_what_a_writer_that_closed_could_not_hand_over_is_told_once(reader: Make):
    end = reader(marked(7), inline(dumped("between")), marked(8), inline(dumped("last")))
    end._waiter.set_error(lambda _: QueueClosed("the writer"))
    end.left = end.payloads.empty = True
    end.side.seconds_a_claim = 1.0
    with pytest.raises(MessagesLost) as caught:
        end._next(5.0)
    assert caught.value.count == 2
    assert end._next(5.0) == "between"
    end._undelivered = None
    end.side.log.clear()
    assert end._next(5.0) == "last"
    assert end.side.log == [("claim", 5.0), "done", ("claim", 4.0), "done"]
    end.side.chunks, end._undelivered = [marked(9), inline(dumped("x"))], None
    end.side.log.clear()
    assert end._next(None) == "x"
    assert end.side.log[-2:] == [("claim", None), "done"]


# -- arrivals and ends ----------------------------------------------------------------------


class Knock:
    """What the door says, round by round."""

    welcomed = go = False

    def __init__(self, *heard: Any) -> None:
        self.said = list(heard)

    def hear(self) -> bool:
        thing = self.said.pop(0)
        if isinstance(thing, Exception):
            raise thing
        if thing == "go":
            self.go = True
        elif thing is not None:
            self.welcomed, self.given = True, thing
        return thing is not None

    def welcome(self) -> tuple[bytes, list[int]]:
        return self.given


def arriving(reader: Make, *heard: Any) -> Reader:
    end = reader()
    end._handshake = Knock(*heard)
    end.slept: list[Any] = []
    end._sleep = end.slept.append
    end._waiter.watch_wakeup = lambda fd: end.side.log.append(fd)
    end._payloads.connect = lambda *to: end.side.log.append(to)
    return end


def test_a_welcome_brings_bells_and_the_nonce_and_is_not_yet_the_go(reader: Make):
    bell = os.eventfd(0)
    end = arriving(reader, (b"nonce", [5, bell]), None)
    assert end._handshake_step(lambda: 0) is False
    joined = [5, ("ipc:///nowhere/here/o", b"nonce")]
    assert end.side.log == joined
    end.side.wake_writer()
    assert os.eventfd_read(bell) == 1
    os.close(bell)
    assert end._handshake_step(lambda: 2.5) is False
    assert end.side.log == joined
    assert end.slept == [2.5]


def test_a_go_ends_it_without_a_sleep(reader: Make):
    end = arriving(reader, (b"nonce", [5, 6]), "go")
    assert [end._handshake_step(lambda: None) for _ in range(4)] == [False, False, True, True]
    assert end.slept == []


def test_a_stopped_end_does_not_ask(reader: Make):
    end = arriving(reader)
    end._waiter.stop()
    with pytest.raises(Cancelled, match="the writer's go"):
        end._handshake_step(lambda: 0)


class Peer:
    role, pid = "writer", 77

    def __init__(self) -> None:
        self.asked: list[float] = []

    def is_dead(self, seconds: float) -> bool:
        self.asked.append(seconds)
        return True

    def signal(self) -> int:
        return 9


@pytest.mark.parametrize("left", [False, True])
def test_an_end_before_the_go_is_told_as_what_it_was(
    reader: Make, left: bool, monkeypatch: pytest.MonkeyPatch
):
    removed: list[Path] = []
    monkeypatch.setattr(reader_module, "remove_if_orphan", removed.append)
    end, peer = arriving(reader, PeerDied("writer", 1, "x")), Peer()
    end._peer, end.left = peer, left
    with pytest.raises(QueueClosed if left else PeerDied) as caught:
        end._handshake_step(lambda: 0)
    if left:
        assert peer.asked == []
        assert removed == []
    else:
        assert caught.value.facts[:4] == ("writer", 77, "the writer's go", 9)
        assert peer.asked == [0.2]
        assert removed == [reader_module.SHM / "no such segment", Path("/nowhere/here")]


def test_a_goodbye_is_said_then_rung(reader: Make, monkeypatch: pytest.MonkeyPatch):
    removed: list[Path] = []
    monkeypatch.setattr(reader_module, "remove_if_orphan", removed.append)
    end = reader()
    end._shutdown(1.0)
    assert end.side.log == ["left", "ring"]
    assert len(removed) == 2


def test_the_ring_it_reads_is_told(reader: Make):
    end = reader()
    assert end.ring is end._ring
