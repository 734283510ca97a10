"""Large messages in pieces: whole, in order, given up without a trace (SPEC Q1, Q6, R9, X1)."""

import threading
from typing import Any

import numpy as np
import pytest

from refengine.base.buffer_pool import BufferPool
from refengine.base.serialization import split_message, total_of, write_message
from refengine.errors import PeerDied
from refengine.queue import MessageQueue
from refengine.queue.chunking import ChunkingConfig, ReaderPace, Reassembler, write_chunked
from refengine.ring.ring import Ring

from ..roles import Role
from .ends import attach, pair

CHUNK = 64 << 10
LARGE = 1_200_000  # travels out of band, so in pieces
SOME = ChunkingConfig(least=1 << 20, piece=100_000, soon=100_000, room=100_000)


def array(nbytes: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 255, nbytes, np.uint8)


class Rig:
    """A ring, its writer's pace, and a reader that takes pieces when told to."""

    def __init__(self, clock: Any = None, slots: int = 4) -> None:
        self.writer = Ring.create(1, CHUNK, slots)
        self.reader = Ring.attach(self.writer.handle(), 0)
        self.assembly = Reassembler(BufferPool())
        self.now = 0.0
        self.pace = ReaderPace(clock or self.tick)

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    def send(self, *buffers: bytes, piece: int = 1000) -> int:
        """How many slots it took."""
        nbytes = total_of([len(b) for b in buffers]) + 1
        before = self.writer.writer.number
        chunk = self.writer.writer.claim(0)
        assert chunk is not None
        self.pace.begin(nbytes, None)
        write_chunked(self.writer.writer, buffers, nbytes, chunk, piece, self.pace)
        return self.writer.writer.number - before

    def take(self) -> list[Any] | None:
        """One piece; the message if it was the last."""
        chunk = self.reader.reader.claim(0)
        assert chunk is not None
        whole = self.assembly.add(chunk)
        self.reader.reader.release_slot()
        return None if whole is None else [bytes(part) for part in split_message(whole)]

    def keep_up(self) -> list[Any]:
        """From now on the reader takes each piece at once; what the pieces gave."""
        given: list[Any] = []

        def readers_caught_up(_: Any) -> bool:
            if self.reader.reader.unread_chunks():
                given.append(self.take())
            return True

        self.pace.readers_caught_up = readers_caught_up
        return given

    def close(self) -> None:
        self.writer.close()
        self.reader.close()


@pytest.fixture
def rig():
    with_ring = Rig()
    yield with_ring
    with_ring.close()


def test_without_a_reader_at_hand_a_message_takes_one_slot_more(rig: Rig):
    message = b"pickle", bytes(range(256)) * 40, b"", b"tail"
    assert rig.send(*message) == 2
    assert rig.take() is None
    assert rig.take() == list(message)


def test_behind_an_unread_message_it_takes_one_slot(rig: Rig):
    rig.send(b"first", b"x" * 5000)
    rig.take()
    assert rig.send(b"second", b"y" * 5000) == 1


def test_with_a_reader_that_keeps_up_each_piece_takes_a_slot(rig: Rig):
    rig.keep_up()
    message = b"pickle", bytes(10_000)
    assert rig.send(*message) == 10
    assert rig.take() is None
    assert rig.take() == list(message)


@pytest.mark.parametrize("cut", [1, 7, 100, 4096, 10_007])
def test_pieces_of_any_size_make_the_same_message(rig: Rig, cut: int):
    given = rig.keep_up()
    message = [b"p" * 11, *(bytes(array(n, n)) for n in (0, 1, 3000, 5000))]
    rig.send(*message, piece=cut)
    while rig.reader.reader.unread_chunks():
        given.append(rig.take())
    assert given.pop() == message
    assert not any(given)


def test_a_message_given_up_leaves_no_trace_in_the_next(rig: Rig):
    class Interrupted(Exception):
        pass

    def kept(_: Any) -> bool:
        raise Interrupted

    rig.pace.readers_caught_up, whole = kept, rig.pace.readers_caught_up  # interrupts
    with pytest.raises(Interrupted):
        rig.send(b"never", b"n" * 9000)
    rig.pace.readers_caught_up = whole  # as it was
    rig.send(b"next", b"m" * 9000)
    rig.send(b"third", b"t" * 9000)
    got = [rig.take() for _ in range(3)]
    assert [g for g in got if g] == [[b"next", b"m" * 9000], [b"third", b"t" * 9000]]


def test_a_piece_may_be_added_twice(rig: Rig):
    rig.send(b"p", b"d" * 5000)
    chunk = rig.reader.reader.claim(0)
    assert chunk is not None
    assert rig.assembly.add(chunk) is None
    assert rig.take() is None
    assert rig.take() == [b"p", b"d" * 5000]


def test_the_rest_of_a_message_whose_beginning_nobody_has_is_dropped(rig: Rig):
    rig.send(b"p", b"d" * 5000)
    rig.take()
    rig.assembly.clear()
    assert rig.take() is None


def test_the_large_buffer_is_aligned_in_its_memory():
    writer, reader = pair(
        max_chunk_bytes=4 << 20, max_chunks=4, chunking=ChunkingConfig(1 << 20, 64 << 10, 64 << 10)
    )
    sent = np.arange(300_000, dtype=np.float64)
    writer.enqueue({"odd": 1, "data": sent}, 5)
    got = reader.dequeue(5)["data"]
    assert got.flags.aligned
    assert got.ctypes.data % 64 == 0
    assert np.array_equal(got, sent)
    reader.close()
    writer.close()


@pytest.mark.parametrize("nbytes", [-1, 0, 1])
def test_pieces_serve_only_what_may_have_to_fit_into_one_slot(nbytes: int):
    pieces = ChunkingConfig(least=100)
    assert pieces.applies(1000 - 127 + nbytes, 1000) == (nbytes <= 0)
    assert not pieces.applies(99, 1000)


def test_a_queue_of_one_slot_sends_it_whole():
    """The slot after the only one is that slot, and its message unread."""
    writer, reader = pair(max_chunk_bytes=2 << 20, max_chunks=1, chunking=SOME)
    for seed in range(3):
        sent = array(LARGE, seed)
        writer.enqueue(sent, 5)
        assert np.array_equal(reader.dequeue(5), sent)
    reader.close()
    writer.close()


class Slow:
    """A side whose readers have read all at the n-th look."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def all_read(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def test_a_message_larger_than_a_slot_goes_over_several_free_ones(rig: Rig):
    message = b"p", bytes(array(2 * CHUNK))
    assert rig.send(*message, piece=CHUNK) == 3
    taken = [rig.take() for _ in range(3)]
    assert taken == [None, None, list(message)]


@pytest.mark.parametrize("delta", [-1, 0, 1])
def test_it_does_only_if_free_slots_can_hold_it_all(delta: int):
    pieces, room = ChunkingConfig(least=1, room=100), 1000 - 127
    assert pieces.spans_slots(3 * room + delta, 1000, 4) == (delta <= 0)
    assert not pieces.spans_slots(3 * room, 150, 100)  # a piece would not fit into a slot


def test_behind_an_unread_message_a_larger_one_overflows_as_ever():
    chunk = 2 << 20
    writer, reader = pair(max_chunk_bytes=chunk, max_chunks=8, chunking=SOME)
    sending: Any = writer._writer
    before = sending._ring_writer.number
    sent = array(3 << 20)
    writer.enqueue({"n": 0, "data": sent}, 5)
    assert sending._ring_writer.number - before == 3
    writer.enqueue({"n": 1, "data": sent}, 5)
    assert sending._ring_writer.number - before == 4  # a marker, and the socket
    for n in range(2):
        got = reader.dequeue(5)
        assert got["n"] == n
        assert np.array_equal(got["data"], sent)
    reader.close()
    writer.close()


def test_readers_are_waited_for_no_longer_than_the_copy_takes():
    pace = ReaderPace(iter(range(1000)).__next__)  # a second a look
    pace.begin(int(8e9 * 10), None)
    assert not pace.readers_caught_up(Slow(100))  # only all_read is asked
    assert not pace.readers_caught_up(Slow(1))  # the patience is used up
    assert pace.readers_caught_up(Slow(0))


def test_what_waiting_used_up_is_gone_for_the_next_piece():
    pace = ReaderPace(iter(range(1000)).__next__)
    pace.begin(int(8e9 * 10), None)
    assert pace.readers_caught_up(Slow(6))
    assert not pace.readers_caught_up(Slow(6))


def test_no_deadline_is_overstepped_by_waiting():
    pace = ReaderPace(iter(range(1000)).__next__)
    pace.begin(int(8e9 * 100), 2.0)
    assert not pace.readers_caught_up(Slow(5))
    pace.begin(int(8e9 * 100), 0.0)
    assert not pace.readers_caught_up(Slow(1))


def test_readers_that_did_not_come_are_not_waited_for_again_at_once():
    pace = ReaderPace(iter(range(1000)).__next__)
    sat_out = []
    for _ in range(3):
        pace.begin(int(8e9 * 3), None)
        assert not pace.readers_caught_up(Slow(100))
        count = 0
        while True:
            pace.begin(int(8e9 * 3), None)
            if pace._left:
                break
            count += 1
        sat_out.append(count)
    assert sat_out == sorted(set(sat_out))


def hear(say: Any, handle: Any, rank: int, count: int) -> None:
    with attach(handle, rank) as queue:
        for _ in range(count):
            step, data = queue.dequeue(10)
            say((step, int(data[0]), int(data[-1]), len(data)))


@pytest.mark.parametrize("n_reader", [1, 3])
def test_large_and_small_messages_keep_one_order_at_every_reader(n_reader: int):
    queue = MessageQueue(n_reader, max_chunk_bytes=2 << 20, max_chunks=4, chunking=SOME)
    roles = [Role(hear, queue.export_handle(), i, 80) for i in range(n_reader)]
    with queue:
        queue.wait_until_ready(10)
        for step in range(80):
            size = (LARGE, 5, 3 << 20, LARGE + 9)[step % 4]  # pieces, inline, overflow, pieces
            queue.enqueue((step, np.full(size, step % 251, np.uint8)), 10)
    for role in roles:
        got = role.finish()
        assert [g[0] for g in got] == list(range(80))
        assert all(g[1] == g[2] == g[0] % 251 for g in got)


def dies_inside(say: Any, n_reader: int) -> None:
    queue = MessageQueue(n_reader, max_chunk_bytes=2 << 20, max_chunks=4, chunking=SOME)
    say(queue.export_handle())
    queue.wait_until_ready(10)
    queue.enqueue(b"whole", 5)
    sending: Any = queue._writer
    pace = sending._pace

    def die(_: Any) -> bool:
        say("inside")
        threading.Event().wait(30)
        return True

    pace.readers_caught_up = lambda _: setattr(pace, "readers_caught_up", die) or True
    queue.enqueue({"data": np.zeros(LARGE, np.uint8), "more": b"z" * 9000}, 5)


def test_of_a_message_whose_writer_died_inside_nothing_is_seen():
    writer = Role(dies_inside, 1)
    reader = attach(writer.hear())
    assert reader.dequeue(5) == b"whole"
    assert writer.hear() == "inside"
    writer.kill()
    with pytest.raises(PeerDied):
        reader.dequeue(5)
    reader.close()


def test_a_deadline_in_the_middle_of_a_message_costs_nothing():
    writer, reader = pair(max_chunk_bytes=2 << 20, max_chunks=4, chunking=SOME)
    sending: Any = writer._writer
    inside, go = threading.Event(), threading.Event()

    def pause(_: Any) -> bool:
        inside.set()
        assert go.wait(10)
        return True

    sending._pace.readers_caught_up = pause
    sent = array(LARGE)
    thread = threading.Thread(target=writer.enqueue, args=((1, sent), 10))
    thread.start()
    assert inside.wait(10)
    with pytest.raises(TimeoutError):
        reader.dequeue(0.05)
    go.set()
    sending._pace.readers_caught_up = lambda _: False
    step, got = reader.dequeue(10)
    thread.join()
    assert step == 1
    assert np.array_equal(got, sent)
    reader.close()
    writer.close()


def test_pieces_are_laid_out_as_an_inline_message_is():
    buffers = [b"main", b"a" * 10, b"b" * 7]
    nbytes = total_of([len(b) for b in buffers]) + 1
    whole = memoryview(bytearray(nbytes))
    write_message(buffers, whole)
    rig = Rig()
    rig.pace.readers_caught_up = lambda _: False  # nobody reads
    rig.send(*buffers, piece=3)
    chunk = rig.reader.reader.claim(0)
    assert chunk is not None
    at = 64 + 64 - (3 + 4 + 4 + 4)
    assert bytes(chunk[at : at + nbytes]) == bytes(whole)
    rig.close()
