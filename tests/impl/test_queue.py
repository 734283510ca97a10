"""The queue end to end between real processes, one test per claim of SPEC 3."""

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refengine.encoding import Limits
from refengine.errors import (
    AttachFailed,
    Busy,
    Cancelled,
    DeadlinePassed,
    EncodingLimit,
    ForkedCopy,
    MessagesLost,
    NotReady,
    PeerDied,
    QueueClosed,
    RankRefused,
    Undecodable,
    Unencodable,
    Unsupported,
    WrongRole,
)
from refengine.queue import CancelToken, Handle, MessageQueue
from refengine.waiting import BellAfterSpin, Yielding

from .roles import Role, leftovers, until

CHUNK = 4096
BIG = b"b" * 50_000


def attach(handle: Handle, rank: int = 0, **seams: Any) -> MessageQueue:
    queue = MessageQueue.create_from_handle(handle, rank, **seams)
    queue.wait_until_ready(10)
    return queue


def echo(say: Any, handle: Handle, rank: int = 0, **seams: Any) -> None:
    """Say everything received, then the error that ends it."""
    with attach(handle, rank, **seams) as queue:
        while True:
            try:
                say(queue.dequeue(10))
            except MessagesLost as error:
                say(error)
            except Exception as error:
                say(error)
                return


def pair(**seams: Any) -> tuple[MessageQueue, MessageQueue]:
    """Writer and reader in this process."""
    seams = {"max_chunk_bytes": CHUNK, "max_chunks": 4} | seams
    writer = MessageQueue(1, **seams)
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)
    thread = threading.Thread(target=reader.wait_until_ready, args=(10,))
    thread.start()
    writer.wait_until_ready(10)
    thread.join()
    return writer, reader


@pytest.fixture
def ends():
    writer, reader = pair()
    yield writer, reader
    reader.close()
    writer.close()


def writer_for(n: int, **seams: Any) -> MessageQueue:
    return MessageQueue(n, **({"max_chunk_bytes": CHUNK, "max_chunks": 4} | seams))


@pytest.mark.parametrize("n_reader", [1, 2, 5])
@pytest.mark.parametrize(
    "strategy", [None, Yielding(), BellAfterSpin()], ids=["adaptive", "yielding", "bell"]
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


def test_a_timed_out_overflow_dequeue_has_no_effect():
    writer, reader = pair()
    held = HeldBack(reader)
    writer.enqueue(BIG, 5)
    writer.enqueue("after", 5)
    for timeout in (0.05, 0, -1):
        start = time.monotonic()
        with pytest.raises(DeadlinePassed, match="overflow"):
            reader.dequeue(timeout)
        assert max(0, timeout) <= time.monotonic() - start < 1.5
    held.release()
    assert reader.dequeue(5) == BIG
    assert reader.dequeue(5) == "after"
    reader.close()
    writer.close()


class HeldBack:
    """Keeps payloads from a reader, as a slow connection does."""

    def __init__(self, reader: MessageQueue) -> None:
        self.payloads = reader._receiving._payloads  # type: ignore[union-attr]
        self.find = self.payloads.find
        self.payloads.find = lambda _: None
        wait = self.payloads.wait
        self.payloads.wait = lambda fd, s: wait(fd, 0.01 if s is None else min(s, 0.01))

    def release(self) -> None:
        self.payloads.find = self.find


def test_the_writers_slot_stays_taken_until_the_payload_arrived():
    writer, reader = pair()
    held = HeldBack(reader)
    for _ in range(4):
        writer.enqueue(BIG, 5)
    with pytest.raises(DeadlinePassed):
        reader.dequeue(0)
    with pytest.raises(DeadlinePassed):
        writer.enqueue(BIG, 0)
    held.release()
    assert reader.dequeue(5) == BIG
    writer.enqueue("fits", 5)
    reader.close()
    writer.close()


@pytest.mark.parametrize("nbytes", [100, 50_000, 1 << 21])
def test_what_arrives_is_what_was_enqueued(ends: Any, nbytes: int):
    writer, reader = ends
    array = np.ones(nbytes, np.uint8)
    writer.enqueue(array, 5)
    array[:] = 0
    got = reader.dequeue(5)
    assert got.all()
    assert got.nbytes == nbytes


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


@pytest.mark.parametrize("asleep", [False, True])
def test_a_killed_writer_is_noticed_after_the_messages(asleep: bool):
    def write(say: Any) -> None:
        with writer_for(1) as queue:
            say(queue.export_handle())
            queue.wait_until_ready(10)
            for i in range(4):
                queue.enqueue(i, 5)
            say("sent")
            signal.pause()

    with Role(write) as writer:
        reader = role_reader(writer)
        assert writer.hear() == "sent"
        if asleep:
            assert [reader.dequeue(5) for _ in range(4)] == [0, 1, 2, 3]
            killer = threading.Timer(0.05, os.kill, (writer.pid, signal.SIGKILL))
            killer.start()
        else:
            writer.kill()
            assert [reader.dequeue(5) for _ in range(4)] == [0, 1, 2, 3]
        start = time.monotonic()
        with pytest.raises(PeerDied) as caught:
            reader.dequeue(10)
        assert time.monotonic() - start < 2
        assert (caught.value.role, caught.value.pid) == ("writer", writer.pid)
        with pytest.raises(PeerDied):
            reader.dequeue(10)
        reader.close()
        if asleep:
            killer.join()
    assert not leftovers(writer.pid)


def role_reader(writer: Role) -> MessageQueue:
    return attach(writer.hear())


def test_a_writer_killed_before_its_payload_arrived_is_an_error_not_a_hang():
    def write(say: Any) -> None:
        with writer_for(1) as queue:
            say(queue.export_handle())
            queue.wait_until_ready(10)
            queue.enqueue("first", 5)
            queue._sending._payloads.send = lambda _: (1, 1)  # type: ignore[union-attr]
            queue.enqueue(BIG, 5)
            say("sent")
            signal.pause()

    with Role(write) as writer:
        reader = role_reader(writer)
        writer.hear()
        assert reader.dequeue(5) == "first"
        with pytest.raises(DeadlinePassed):
            reader.dequeue(0.05)
        writer.kill()
        start = time.monotonic()
        with pytest.raises(PeerDied):
            reader.dequeue(10)
        assert time.monotonic() - start < 2
        reader.close()


def idle(say: Any, handle: Handle, rank: int = 0) -> None:
    queue = attach(handle, rank)
    say("ready")
    signal.pause()
    queue.close()


@pytest.mark.parametrize("full", [False, True])
def test_a_killed_reader_is_an_error_at_the_pending_or_next_call(full: bool):
    queue = writer_for(1)
    with Role(idle, queue.export_handle()) as reader:
        queue.wait_until_ready(10)
        reader.hear()
        for i in range(4 if full else 1):
            queue.enqueue(i, 5)
        if full:
            threading.Timer(0.05, os.kill, (reader.pid, signal.SIGKILL)).start()
        else:
            reader.kill()
        start = time.monotonic()
        with pytest.raises(PeerDied) as caught:
            queue.enqueue("more", 10)
        assert time.monotonic() - start < 2
        assert (caught.value.role, caught.value.pid) == ("reader 0", reader.pid)
    queue.close()


def test_by_policy_the_writer_goes_on_and_the_others_lose_nothing():
    queue = writer_for(2, reader_policy="continue")
    handle = queue.export_handle()
    with Role(idle, handle, 0) as victim, Role(echo, handle, 1) as other:
        queue.wait_until_ready(10)
        victim.hear()
        for i in range(20):
            if i == 3:
                victim.kill()
            queue.enqueue((i, BIG if i % 4 == 0 else b""), 10)
        queue.close()
        *got, _ = other.finish()
        assert [i for i, _ in got] == list(range(20))


def test_a_reader_that_closes_leaves_the_others_served_and_the_last_ends_it():
    queue = writer_for(2)
    handle = queue.export_handle()

    def brief(say: Any) -> None:
        with attach(handle, 0) as reader:
            say(reader.dequeue(10))

    with Role(brief) as first, Role(echo, handle, 1) as other:
        queue.wait_until_ready(10)
        for i in range(20):
            queue.enqueue(i, 10)
        assert first.finish() == [0]
        queue.close()
        *got, _ = other.finish()
        assert got == list(range(20))


def test_with_no_reader_left_enqueue_says_so(ends: Any):
    writer, reader = ends
    writer.enqueue(1, 5)
    reader.close()

    def refused() -> bool:
        try:
            writer.enqueue(2, 5)
        except QueueClosed:
            return True
        return False

    until(refused, 1)


@pytest.mark.parametrize("timeout", [0.05, 0, -5])
def test_deadlines_hold_on_an_empty_and_on_a_full_ring(ends: Any, timeout: float):
    writer, reader = ends
    start = time.monotonic()
    with pytest.raises(DeadlinePassed):
        reader.dequeue(timeout)
    assert max(0, timeout) <= time.monotonic() - start < 1
    for i in range(4):
        writer.enqueue(i, timeout)
    start = time.monotonic()
    with pytest.raises(DeadlinePassed):
        writer.enqueue("no room", timeout)
    assert max(0, timeout) <= time.monotonic() - start < 1
    assert [reader.dequeue(timeout) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(DeadlinePassed):
        reader.dequeue(0)


@pytest.mark.parametrize("where", ["ring", "overflow", "full", "rendezvous"])
def test_shutdown_wakes_every_waiter(where: str):
    if where == "rendezvous":
        waiting = writer_for(1)
        call = waiting.wait_until_ready
        others: list[MessageQueue] = []
    else:
        writer, reader = pair()
        others = [writer, reader]
        waiting = writer if where == "full" else reader
        if where == "overflow":
            HeldBack(reader)
            reader._receiving._payloads.wait = type(reader._receiving._payloads).wait.__get__(  # type: ignore[union-attr]
                reader._receiving._payloads  # type: ignore[union-attr]
            )
            writer.enqueue(BIG, 5)
        for i in range(4 if where == "full" else 0):
            writer.enqueue(i, 5)
        call = (lambda: writer.enqueue("more")) if where == "full" else reader.dequeue
    fired: list[float] = []

    def fire() -> None:
        fired.append(time.monotonic())
        waiting.shutdown()

    timer = threading.Timer(0.1, fire)
    timer.start()
    with pytest.raises(Cancelled):
        call()
    assert time.monotonic() - fired[0] < 0.5  # 0.1 s, and a busy machine
    timer.join()
    with pytest.raises(Cancelled):
        call()
    for queue in (*others, waiting):
        queue.close()


@pytest.mark.parametrize("make", [CancelToken, threading.Event])
@pytest.mark.parametrize("where", ["ring", "overflow"])
def test_a_cancelled_dequeue_has_no_effect(make: Any, where: str):
    writer, reader = pair()
    if where == "overflow":
        held = HeldBack(reader)
        writer.enqueue(BIG, 5)
    token = make()
    timer = threading.Timer(0.05, token.set)
    timer.start()
    start = time.monotonic()
    with pytest.raises(Cancelled):
        reader.dequeue(10, cancel=token)
    assert time.monotonic() - start < 2
    if where == "overflow":
        held.release()
    else:
        writer.enqueue(BIG, 5)
    assert reader.dequeue(5) == BIG
    timer.join()
    reader.close()
    writer.close()


def test_an_idle_reader_wakes_for_every_publication():
    queue = writer_for(1)

    def answer(say: Any, handle: Handle) -> None:
        with attach(handle) as reader:
            for i in range(30):
                assert reader.dequeue(20) == i
                say(time.monotonic())

    with Role(answer, queue.export_handle()) as role:
        queue.wait_until_ready(10)
        for i in range(30):
            until(lambda: asleep(role.pid))
            sent = time.monotonic()
            queue.enqueue(i, 5)
            assert role.hear() - sent < 0.5  # 0.1 s, and a busy machine
        role.finish()
    queue.close()


def asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "SZ"


def test_a_full_ring_lets_the_writer_sleep_and_wakes_it():
    queue = writer_for(1, max_chunks=1)

    def write(say: Any) -> None:
        with writer_for(1, max_chunks=1) as queue:
            say(queue.export_handle())
            queue.wait_until_ready(10)
            for i in range(30):
                queue.enqueue(i, 20)
            say("done")

    with Role(write) as role:
        reader = role_reader(role)
        for i in range(30):
            until(lambda: asleep(role.pid))
            assert reader.dequeue(5) == i
        assert role.finish()[-1] == "done"
        reader.close()
    queue.close()


def test_waiting_for_readers_that_never_come_ends_at_the_deadline_and_can_be_retried():
    queue = writer_for(2)
    handle = queue.export_handle()
    with Role(echo, handle, 0) as first:
        start = time.monotonic()
        with pytest.raises(DeadlinePassed, match=r"\[1\]|\[0, 1\]"):
            queue.wait_until_ready(0.2)
        assert 0.2 <= time.monotonic() - start < 1
        with Role(echo, handle, 1) as second:
            queue.wait_until_ready(10)
            queue.enqueue("hello", 5)
            queue.close()
            assert first.finish()[0] == second.finish()[0] == "hello"


def test_a_reader_that_dies_during_the_rendezvous_is_an_error_not_an_arrival():
    queue = writer_for(2)

    def half(say: Any, handle: Handle) -> None:
        MessageQueue.create_from_handle(handle, 0)
        say("there")
        signal.pause()

    with Role(half, queue.export_handle()) as role:
        role.hear()
        role.kill()
        start = time.monotonic()
        with pytest.raises(PeerDied):
            queue.wait_until_ready(10)
        assert time.monotonic() - start < 2
    queue.close()
    assert not leftovers(os.getpid())


def test_a_reader_that_dies_after_its_welcome_is_an_error_at_the_waiting_writer():
    queue = writer_for(2)

    def wait(say: Any, handle: Handle) -> None:
        reader = MessageQueue.create_from_handle(handle, 0)
        arrive = reader._receiving._arrive  # type: ignore[union-attr]

        def told(left: Any) -> bool:
            say(reader._receiving._knock.welcomed)  # type: ignore[union-attr]
            return arrive(left)

        reader._receiving._arrive = told  # type: ignore[union-attr]
        reader.wait_until_ready(10)

    def kill(role: Role) -> None:
        while not role.hear():
            pass
        role.kill()

    with Role(wait, queue.export_handle()) as role:
        killer = threading.Thread(target=kill, args=(role,))
        killer.start()
        start = time.monotonic()
        with pytest.raises(PeerDied):
            queue.wait_until_ready(10)
        assert time.monotonic() - start < 3
        killer.join()
    queue.close()


@pytest.mark.parametrize("attached", [False, True])
def test_a_writer_that_dies_before_it_is_ready_is_an_error_and_its_names_go(attached: bool):
    def write(say: Any) -> None:
        queue = writer_for(1)
        say(queue.export_handle())
        signal.pause()
        queue.close()

    with Role(write) as writer:
        handle = writer.hear()
        assert leftovers(writer.pid)
        if attached:
            reader = MessageQueue.create_from_handle(handle, 0)
            writer.kill()
            start = time.monotonic()
            with pytest.raises(PeerDied):
                reader.wait_until_ready(10)
            assert time.monotonic() - start < 2
            reader.close()
        else:
            writer.kill()
            with pytest.raises((PeerDied, AttachFailed)):
                MessageQueue.create_from_handle(handle, 0)
    assert not leftovers(writer.pid)


def test_names_are_gone_once_everybody_is_ready(ends: Any):
    assert not leftovers(os.getpid())


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
    with pytest.raises(Unsupported, match="step"):
        MessageQueue(2, 1, max_chunk_bytes=CHUNK)
    for bad in ((0,), (2, 2, [0, 0]), (2, 2, [0, 5])):
        with pytest.raises(ValueError, match=r"needed|needs"):
            MessageQueue(*bad)
    early = writer_for(1)
    with pytest.raises(NotReady):
        early.enqueue(1)
    early.close()
    with pytest.raises(QueueClosed):
        early.enqueue(1)


def test_two_threads_in_one_end_get_each_message_once_or_busy():
    writer, reader = pair(max_chunks=16)
    got: list[int] = []

    def take() -> None:
        while len(got) < 400:
            try:
                got.append(reader.dequeue(0.5))
            except Busy:
                os.sched_yield()
            except DeadlinePassed:
                return

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(400):
        writer.enqueue(i, 10)
    for thread in threads:
        thread.join(20)
    assert sorted(got) == list(range(400))
    reader.close()
    writer.close()


def test_a_second_call_from_a_signal_handler_is_busy(ends: Any):
    _, reader = ends
    seen: list[Exception] = []

    def handler(*_: Any) -> None:
        try:
            reader.dequeue(0)
        except Exception as error:
            seen.append(error)

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(DeadlinePassed):
        reader.dequeue(0.2)
    signal.signal(signal.SIGALRM, old)
    assert [type(e) for e in seen] == [Busy]
    with pytest.raises(DeadlinePassed):
        reader.dequeue(0)


class Alarm(Exception):
    pass


def test_a_signal_handler_that_raises_loses_and_repeats_nothing(monkeypatch: Any):
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # one may hit a destructor

    def write(say: Any) -> None:
        with writer_for(1) as queue:
            say(queue.export_handle())
            queue.wait_until_ready(10)
            for i in range(3000):
                queue.enqueue((i, BIG if i % 50 == 0 else b"x"), 20)

    def ring(_: int, frame: Any) -> None:
        if "refengine" in frame.f_code.co_filename:
            raise Alarm

    got: list[int] = []
    alarms = 0
    with Role(write) as writer:
        reader = role_reader(writer)
        old = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.00037)
        try:
            while len(got) < 3000:
                try:
                    got.append(reader.dequeue(20)[0])
                except Alarm:
                    alarms += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        reader.close()
    assert alarms > 3
    assert got == list(range(3000))


@pytest.mark.parametrize("how", ["close", "collect", "cycle", "exit"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_what_was_enqueued_is_delivered_whatever_ends_the_writer(how: str, method: str):
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    start = time.monotonic()
    child = context.Process(target=write_and_end, args=(theirs, how))
    child.start()
    theirs.close()
    reader = attach(ours.recv())
    assert ours.recv() == "sent"
    child.join(10)
    assert child.exitcode == 0
    assert [len(reader.dequeue(5)) for _ in range(3)] == [3_000_000, 5, 3_000_000]
    with pytest.raises(QueueClosed):
        reader.dequeue(5)
    assert time.monotonic() - start < 10
    reader.close()
    assert not leftovers(child.pid or 0)


def write_and_end(pipe: Any, how: str) -> None:
    queue = writer_for(1)
    pipe.send(queue.export_handle())
    queue.wait_until_ready(10)
    for size in (3_000_000, 5, 3_000_000):
        queue.enqueue(b"x" * size, 5)
    pipe.send("sent")
    if how == "close":
        queue.close()
    elif how == "collect":
        del queue
    elif how == "cycle":
        queue.me = queue  # type: ignore[attr-defined]
        del queue
        gc.collect()
    else:
        global kept
        kept = queue


def test_a_close_that_could_not_deliver_tells_how_many_were_lost():
    queue = writer_for(1)
    with Role(echo_when_told, queue.export_handle()) as role:
        queue.wait_until_ready(10)
        assert role.hear() == "ready"
        role.stop()
        queue.enqueue("inline", 5)
        for _ in range(2):
            queue.enqueue(b"x" * 30_000_000, 5)
        queue.enqueue("inline too", 5)
        start = time.monotonic()
        queue.close(0.4)
        assert time.monotonic() - start < 2
        os.kill(role.pid, signal.SIGCONT)
        _, *got, end = role.finish()
        assert got[0] == "inline"
        assert isinstance(got[1], MessagesLost)
        assert got[1].count == 2
        assert got[2] == "inline too"
        assert isinstance(end, QueueClosed)


def echo_when_told(say: Any, handle: Handle) -> None:
    queue = attach(handle)
    say("ready")
    while True:
        try:
            thing = queue.dequeue(10)
            say(thing if isinstance(thing, str) else len(thing))
        except MessagesLost as error:
            say(error)
        except QueueClosed as error:
            say(error)
            return


@pytest.mark.parametrize("state", ["fresh", "ready", "full", "waiting"])
def test_closing_ends_soon_in_every_state(state: str):
    if state == "fresh":
        queue, reader = writer_for(1), None
    else:
        queue, reader = pair()
    thread = None
    if state in ("full", "waiting"):
        for i in range(4):
            queue.enqueue((i, BIG), 5)
    if state == "waiting":
        thread = threading.Thread(target=swallow, args=(queue,))
        thread.start()
        until(lambda: queue._end._guard.inside)
    start = time.monotonic()
    queue.close()
    assert time.monotonic() - start < 2
    queue.close()
    if thread:
        thread.join(5)
    if reader:
        reader.close()
    assert not leftovers(os.getpid())


def swallow(queue: MessageQueue) -> None:
    with contextlib.suppress(Cancelled):
        queue.enqueue("more")


def test_a_forks_copy_refuses_and_harms_nobody(ends: Any):
    writer, reader = ends
    writer.enqueue("mine", 5)

    def child(say: Any) -> None:
        for act in (lambda: writer.enqueue(1, 0), lambda: reader.dequeue(0)):
            try:
                act()
            except Exception as error:
                say(error)
        writer.shutdown()
        writer.close()
        reader.close()

    assert [type(e) for e in Role(child).finish()] == [ForkedCopy, ForkedCopy]
    assert reader.dequeue(5) == "mine"
    writer.enqueue(BIG, 5)
    assert reader.dequeue(5) == BIG


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


def test_many_queues_leave_no_descriptor_behind():
    pair_and_close()
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        pair_and_close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def pair_and_close() -> None:
    writer, reader = pair()
    writer.enqueue(BIG, 5)
    assert reader.dequeue(5) == BIG
    reader.close()
    writer.close()
