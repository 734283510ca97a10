"""The two halves of a ring, step by step: fences, counts, and what an exception leaves."""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from refengine.base.serialization import read_single
from refengine.errors import AttachFailed, DeadlinePassed, QueueClosed, RankRefused
from refengine.ring.layout import LEFT, READERS_SLEEP, WRITER_SLEEPS, WRITER_STATE
from refengine.ring.ring import Ring, RingHandle
from refengine.ring.writer import reuse_distance

from .recording import PlainMemory
from .strict_fence import Pair
from .test_ring import get, inject, put, steps


def send(ring: Ring, data: bytes = b"data") -> None:
    assert ring.writer.send(data, 0)


def take(ring: Ring) -> bytes:
    chunk = ring.reader.claim(0)
    assert chunk is not None
    got = read_single(chunk)
    ring.reader.release_slot()
    assert got is not None
    return got


def _all(ring: Ring) -> list[bytes]:
    found = []
    while (chunk := ring.reader.claim(0)) is not None:
        found.append(read_single(chunk))
        ring.reader.release_slot()
    return found


WAYS = {"send": send, "acquire_write": lambda ring: put(ring, b"data")}
FENCED = ["written=0", "fence", "own=0", "fence", "written=1", "fence"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("left_locked", [False, True])
def test_the_writer_fences_whatever_an_exception_left(way: str, left_locked: bool):
    pair = Pair()
    if left_locked:
        pair.lock()
    pair.log.clear()
    WAYS[way](pair.writer)
    done = steps(pair.log, pair.writer.layout, pair.writer.layout.read_at(0, 0))
    assert [step for step in done if not step.startswith("load")] == FENCED


@pytest.mark.parametrize("left_locked", [False, True])
def test_a_reader_fences_whatever_an_exception_left(left_locked: bool):
    pair = Pair()
    send(pair.writer)
    pair.log.clear()
    if left_locked:
        pair.lock()
    assert pair.reader.reader.claim(0) is not None
    pair.log.append(("0", "copy", -1, 0))
    copied = len(pair.log)
    if left_locked:
        pair.lock()
    pair.reader.reader.release_slot()
    own = pair.writer.layout.read_at(0, 0)
    before = steps(pair.log[:copied], pair.writer.layout, own)
    assert before == ["load own", "fence", "load written", "fence"]
    assert steps(pair.log[copied:], pair.writer.layout, own) == ["fence", "own=1", "fence"]


@pytest.mark.parametrize("end", ["writer", "reader"])
def test_a_close_is_told_between_two_fences(end: str):
    pair = Pair()
    pair.log.clear()
    getattr(pair, end).say_left()
    layout = pair.writer.layout
    at = WRITER_STATE if end == "writer" else layout.reader_state(0)
    told = [(what, where) for _, what, where, _ in pair.log]
    assert told == [("fence", 0), ("fence", 0), ("store", at), ("fence", 0), ("fence", 0)]
    assert pair.locked() == [False, False]


def test_every_operation_ends_with_its_fences_free():
    pair = Pair()
    send(pair.writer)
    put(pair.writer, b"more")
    assert pair.locked() == [False, False]
    assert len(pair.reader.reader.unread_chunks()) == 2
    assert pair.locked() == [False, False]
    take(pair.reader)
    get(pair.reader)
    assert pair.locked() == [False, False]
    assert pair.reader.reader.claim(0) is None
    assert pair.locked() == [False, False]
    assert pair.reader.reader.unread_chunks() == []


def test_looking_at_a_full_ring_ends_with_the_fence_free():
    pair = Pair(chunks=2)
    send(pair.writer)
    send(pair.writer)
    assert len(pair.reader.reader.unread_chunks()) == 2
    assert pair.locked() == [False, False]


def test_both_sides_count_what_has_passed():
    pair = Pair()
    assert (pair.writer.writer.number, pair.reader.reader.number) == (0, 0)
    for passed in range(1, 8):
        send(pair.writer) if passed % 2 else put(pair.writer, b"data")
        assert (pair.writer.writer.number, pair.reader.reader.number) == (passed, passed - 1)
        get(pair.reader)
        assert pair.reader.reader.number == passed


def test_an_exception_at_any_line_of_a_send_leaves_it_done_or_not():
    for at in itertools.count(1):
        memory = PlainMemory()
        writer = Ring.create(1, 16, 2, memory=memory)
        reader = Ring.attach(writer.handle(), 0, memory=memory)
        arrived = partial(_all, reader)
        rings: list[int] = []
        writer.writer.wake_readers = lambda rings=rings: rings.append(1)
        for old in (b"a", b"b"):  # the slots have been round
            send(writer, old)
            assert arrived() == [old]
        reader.cells[READERS_SLEEP] = 1
        reached = inject(lambda w=writer: send(w, b"0"), at, "ring/writer.py")
        slept = bool(rings)
        first = arrived()
        assert first in ([], [b"0"]), at
        assert slept or not first, f"published without waking, line {at}"
        send(writer, b"1")
        assert arrived() == [b"1"], at
        if not reached:
            break
    assert at > 15


class Stumble:
    """Cells that raise right after (or before) the first store of 1 to one of them."""

    def __init__(self, cells: Any, at: int, *, after: bool) -> None:
        self.cells, self.at, self.after = cells, at, after

    def __getitem__(self, at: Any) -> Any:
        return self.cells[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        if (at, value) != (self.at, 1):
            self.cells[at] = value
            return
        self.at = -1
        if self.after:
            self.cells[at] = value
        raise KeyError("stumbled")


@pytest.mark.parametrize("after", [False, True])
def test_an_exception_inside_a_publication_comes_out_and_wakes_who_may_sleep(after: bool):
    pair = Pair()
    side = pair.writer.writer
    side._cells = Stumble(side._cells, pair.writer.layout.written_at(0), after=after)
    side.wake_readers()  # a ring alone has nobody to wake, and can be asked to
    rung: list[int] = []
    side.wake_readers = lambda: rung.append(1)
    with pytest.raises(KeyError, match="stumbled"):
        send(pair.writer, b"odd!")
    assert rung == [1]
    send(pair.writer, b"good")
    assert side.number == 1 + after
    assert [take(pair.reader) for _ in range(1 + after)] == [b"odd!", b"good"][1 - after :]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("passed", [0, 1, 2, 5])
def test_an_exception_inside_a_return_counts_it_only_if_it_was_made(after: bool, passed: int):
    pair = Pair()
    side = pair.reader.reader
    for _ in range(passed):
        send(pair.writer)
        take(pair.reader)
    send(pair.writer, b"this")
    send(pair.writer, b"next")
    own = pair.writer.layout.read_at(passed % 3, 0)
    side._cells = Stumble(side._cells, own, after=after)
    side.wake_writer()
    rung: list[int] = []
    side.wake_writer = lambda: rung.append(1)
    assert side.claim(0) is not None
    with pytest.raises(KeyError, match="stumbled"):
        side.release_slot()
    assert rung == [1]
    assert take(pair.reader) == (b"next" if after else b"this")
    assert side.number == passed + 1 + after


@pytest.mark.parametrize("where", [READERS_SLEEP, WRITER_SLEEPS])
def test_a_sleeper_is_woken_once_and_nobody_else_is(where: int):
    pair = Pair()
    woken: list[str] = []
    pair.writer.writer.wake_readers = lambda: woken.append("readers")
    pair.reader.reader.wake_writer = lambda: woken.append("writer")
    pair.writer.cells[where] = 1
    for _ in range(2):
        send(pair.writer)
        take(pair.reader)
    assert woken == (["readers"] if where == READERS_SLEEP else ["writer"])


# -- where large messages lie ---------------------------------------------------------------


def _chunk(ring: Ring, back: int = 1) -> int:
    """In which area the next message would lie; it is told by what lies there already."""
    chunk = ring.writer.claim(0, back)
    assert chunk is not None
    return read_single(chunk)[0]


def _marked(chunks: int) -> Pair:
    """Each area holds its own number."""
    pair = Pair(chunks=chunks)
    for number in range(chunks):
        send(pair.writer, bytes([number]))
        take(pair.reader)
    return pair


def test_a_large_message_lies_where_the_newest_was_when_the_ring_has_been_round():
    assert _chunk(_marked(3).writer) == 2


def test_a_small_message_keeps_to_its_slots_own_area():
    assert _chunk(_marked(3).writer, back=0) == 0


def test_a_large_message_looks_back_past_one_that_is_unread():
    pair = _marked(3)
    send(pair.writer, b"\0")
    assert _chunk(pair.writer) == 2


@pytest.mark.parametrize(("unread", "area"), [(2, 7), (3, 3)])
def test_a_large_message_looks_back_at_three_and_no_further(unread: int, area: int):
    pair = _marked(8)
    for number in range(unread):
        send(pair.writer, bytes([number]))
    assert _chunk(pair.writer) == area


@pytest.mark.parametrize(("back", "area"), [(2, 6), (3, 5), (4, 4), (7, 1), (8, 0), (9, 0)])
def test_a_chunk_is_used_again_no_sooner_than_asked_for(back: int, area: int):
    pair = _marked(8)
    for number in range(8):
        send(pair.writer, bytes([number]))
        take(pair.reader)
    assert _chunk(pair.writer, back) == area


def test_nothing_is_taken_over_from_further_back_than_asked_for():
    pair = _marked(8)
    for number in range(5):
        send(pair.writer, bytes([number]))
    assert _chunk(pair.writer, 5) == 5
    assert _chunk(pair.writer, 6) == 7


@pytest.mark.parametrize(
    ("nbytes", "messages"),
    [(23 << 20, 1), (768 << 10, 1), ((768 << 10) - 1, 5), (256 << 10, 16), (1, 4 << 20)],
)
def test_smaller_messages_go_round_more_chunks(nbytes: int, messages: int):
    assert reuse_distance(nbytes) == messages


# -- ends and errors ------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_deadline_says_how_long_was_waited_and_for_what(timeout: float):
    pair = Pair(chunks=1)
    said = f"waited {timeout:g} s for a message"
    with pytest.raises(DeadlinePassed, match=said), pair.reader.acquire_read(timeout):
        pass
    send(pair.writer)
    said = f"waited {timeout:g} s for a free slot"
    with pytest.raises(DeadlinePassed, match=said), pair.writer.acquire_write(timeout):
        pass
    assert not pair.writer.writer.send(b"more", timeout)


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_that_there_is_not_cannot_attach(rank: int):
    writer = Ring.create(2, 64, 2)
    with pytest.raises(RankRefused):
        Ring.attach(writer.handle(), rank)
    writer.close()


def test_the_writer_is_told_once_every_reader_has_left():
    pair = Pair(n_reader=2)
    pair.readers[0].say_left()
    assert pair.writer.left() is None
    pair.readers[1].say_left()
    fault = pair.writer.left()
    assert fault is not None
    assert isinstance(fault("a free slot"), QueueClosed)
    assert pair.readers[0].left() is None
    pair.writer.say_left()
    assert pair.readers[0].left() is not None
    assert pair.writer.cells[WRITER_STATE] == LEFT


def _mapped(name: str) -> bool:
    return name in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("end", ["close", "drop"])
def test_an_end_that_is_closed_gives_its_memory_back(end: str):
    writer = Ring.create(1, 64, 2)
    reader = Ring.attach(writer.handle(), 0)
    name = writer.handle().name
    getattr(reader, end)()
    assert Path("/dev/shm", name).exists()
    assert Path("/proc/self/maps").read_text().count(name) == 1
    getattr(writer, end)()
    assert not Path("/dev/shm", name).exists()
    assert not _mapped(name)
    getattr(writer, end)()  # once more is nothing


def test_an_attach_that_is_refused_leaves_nothing_mapped():
    writer = Ring.create(1, 64, 2)
    name = writer.handle().name
    writer.segment.buf[:8] = bytes(8)  # no ring any more
    before = Path("/proc/self/maps").read_text().count(name)
    with pytest.raises(AttachFailed) as caught:
        Ring.attach(RingHandle(1, 64, 2, name), 0)
    assert caught.tb  # while its frames are kept, too
    assert Path("/proc/self/maps").read_text().count(name) == before
    writer.close()
