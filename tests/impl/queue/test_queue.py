"""The queue end to end between real processes: order, sizes, objects, roles (SPEC 3)."""

import pickle
from typing import Any

import numpy as np
import pytest

from refengine.base.serialization import OUT_OF_BAND_FROM, Limits
from refengine.errors import (
    AttachFailed,
    DeadlinePassed,
    EncodingLimit,
    NotReady,
    QueueClosed,
    RankRefused,
    Undecodable,
    Unencodable,
    WrongRole,
)
from refengine.queue import Handle, MessageQueue
from refengine.ring.memory import SharedSegment
from refengine.ring.waiting import SpinThenSleep, Yielding

from ..roles import Role
from .ends import attach, echo, pair, writer_for

CHUNK = 4096
BIG = b"b" * 50_000


@pytest.mark.parametrize("n_reader", [1, 2, 5])
@pytest.mark.parametrize(
    "strategy", [None, Yielding(), SpinThenSleep()], ids=["adaptive", "yielding", "bell"]
)
def test_every_reader_gets_every_message_in_order(n_reader: int, strategy: Any):
    sent = [{"i": i, "x": b"x" * (10 if i % 3 else 5000)} for i in range(60)]
    with writer_for(n_reader, waiting=strategy) as queue:
        handle = queue.export_handle()
        roles = [Role(echo, handle, i) for i in range(n_reader)]
        queue.wait_until_ready(10)
        for thing in sent:
            queue.enqueue(thing, 10)
    for role in roles:
        *got, end = role.finish()
        assert got == sent
        assert isinstance(end, QueueClosed)


@pytest.mark.parametrize("delta", range(-3, 4))
@pytest.mark.parametrize("kind", ["bytes", "out of band"])
def test_objects_at_the_boundary_arrive_equal(delta: int, kind: str):
    chunk = CHUNK if kind == "bytes" else (1 << 20) + 4096
    writer, reader = pair(max_chunk_bytes=chunk)
    if kind == "bytes":
        sent: Any = b"z" * (chunk - 6 - len(pickle.dumps(b"z" * 1000, 5)) + 1000 + delta)
        total = 6 + len(pickle.dumps(sent, 5))
        assert total == chunk + delta
    else:
        sent = np.full(chunk - 200 + delta * 40, 7, np.uint8)
    for _ in range(6):
        writer.enqueue(sent, 5)
        assert np.array_equal(reader.dequeue(5), sent)
    reader.close()
    writer.close()


def test_inline_and_overflow_keep_one_order(ends: Any):
    writer, reader = ends
    for i in range(4):
        writer.enqueue((i, BIG if i % 2 else b""), 5)
    assert [reader.dequeue(5)[0] for _ in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize("nbytes", [100, 50_000, 1 << 21])
def test_what_arrives_is_what_was_enqueued(ends: Any, nbytes: int):
    writer, reader = ends
    array = np.ones(nbytes, np.uint8)
    writer.enqueue(array, 5)
    array[:] = 0
    got = reader.dequeue(5)
    assert got.all()
    assert got.nbytes == nbytes


@pytest.mark.parametrize("behind", range(0, 64, 9))
def test_an_array_lies_aligned_in_its_chunk(behind: int):
    made: list[SharedSegment] = []

    class Kept(SharedSegment):
        @classmethod
        def create(cls, nbytes: int) -> SharedSegment:
            made.append(SharedSegment.create(nbytes))
            return made[-1]

    writer, reader = pair(max_chunk_bytes=1 << 20, memory=Kept)
    array = np.full(OUT_OF_BAND_FROM, 7, np.uint8)
    writer.enqueue({"s": "s" * behind, "a": array}, 5)
    assert bytes(made[0].buf).index(array.tobytes()) % 64 == 0
    assert np.array_equal(reader.dequeue(5)["a"], array)
    reader.close()
    writer.close()


def test_nothing_held_changes_when_the_ring_goes_round():
    writer, reader = pair(max_chunk_bytes=4 << 20, max_chunks=2)
    arrays = [np.full((1 << 20) + 5, i, np.uint8) for i in range(6)]
    held = []
    for array in arrays:
        writer.enqueue({"a": array, "b": b"small"}, 5)
        held.append(reader.dequeue(5)["a"])
    for array, got in zip(arrays, held, strict=True):
        assert np.array_equal(array, got)
        got[0] = 1
    reader.close()
    writer.close()


def test_a_format_limit_refuses_and_the_queue_works_on():
    writer, reader = pair(limits=Limits(max_buffers=2, max_buffer_bytes=1 << 21))
    one = np.zeros(1 << 20, np.uint8)
    for bad in ([one, one.copy()], np.zeros((1 << 21) + 1, np.uint8)):
        with pytest.raises(EncodingLimit):
            writer.enqueue(bad, 5)
        writer.enqueue("on", 5)
        assert reader.dequeue(5) == "on"
    reader.close()
    writer.close()


class Bad:
    """Cannot be decoded."""

    def __init__(self, error: type[BaseException] = ValueError, size: int = 1) -> None:
        self.error, self.size = error, size

    def __reduce__(self) -> Any:
        return _fail, (self.error, b"x" * self.size)


def _fail(error: type[BaseException], _: bytes) -> None:
    raise error("as asked")


@pytest.mark.parametrize("size", [1, 50_000])
def test_an_undecodable_message_is_raised_once_and_consumed(ends: Any, size: int):
    writer, reader = ends
    writer.enqueue("before", 5)
    writer.enqueue(Bad(ValueError, size), 5)
    writer.enqueue("after", 5)
    assert reader.dequeue(5) == "before"
    with pytest.raises(Undecodable) as caught:
        reader.dequeue(5)
    assert isinstance(caught.value.__cause__, ValueError)
    assert reader.dequeue(5) == "after"


def test_a_message_that_exits_when_decoded_is_consumed_too(ends: Any):
    writer, reader = ends
    writer.enqueue(Bad(SystemExit), 5)
    writer.enqueue("after", 5)
    with pytest.raises(SystemExit):
        reader.dequeue(5)
    assert reader.dequeue(5) == "after"


def test_an_unencodable_object_publishes_nothing(ends: Any):
    writer, reader = ends
    with pytest.raises(Unencodable):
        writer.enqueue(lambda: 0, 5)
    with pytest.raises(DeadlinePassed):
        reader.dequeue(0)
    writer.enqueue("on", 5)
    assert reader.dequeue(5) == "on"


def test_unknown_and_duplicate_ranks_are_errors_on_both_sides():
    queue = MessageQueue(2, local_reader_ranks=[0, 1], max_chunk_bytes=CHUNK)
    handle = queue.export_handle()
    with pytest.raises(RankRefused):
        MessageQueue.create_from_handle(handle, 2)
    twins = [MessageQueue.create_from_handle(handle, 1) for _ in range(2)]
    with pytest.raises(RankRefused):
        queue.wait_until_ready(5)
    errors: list[Exception] = []
    for twin in twins:
        try:
            twin.wait_until_ready(0.05)
        except (RankRefused, DeadlinePassed) as error:
            errors.append(error)
    assert {type(e) for e in errors} == {RankRefused, DeadlinePassed}
    for end in (*twins, queue):
        end.close()


def test_the_wrong_role_topology_or_moment_is_an_error(ends: Any):
    writer, reader = ends
    with pytest.raises(WrongRole):
        writer.dequeue(0)
    with pytest.raises(WrongRole):
        reader.enqueue(0)
    with pytest.raises(AttachFailed):
        MessageQueue.create_from_handle(writer.export_handle(), 0)  # too late: all are ready
    for bad in ((0,), (2, 2, [0, 0]), (2, 2, [0, 5])):
        with pytest.raises(ValueError, match=r"needed|needs"):
            MessageQueue(*bad)
    early = writer_for(1)
    with pytest.raises(NotReady):
        early.enqueue(1)
    early.close()
    with pytest.raises(QueueClosed):
        early.enqueue(1)


def test_broadcast_object_gives_everybody_the_writers():
    queue = writer_for(1)

    def take(say: Any, handle: Handle) -> None:
        with attach(handle) as reader:
            say(reader.broadcast_object())

    with Role(take, queue.export_handle()) as role:
        queue.wait_until_ready(10)
        assert queue.broadcast_object([1, 2]) == [1, 2]
        assert role.finish() == [[1, 2]]
    queue.close()
