"""Deadlines, cancels, wake-ups, two callers at once (Q2, Q8, Q9, Q13, R9)."""

import signal
import sys
import threading
import time
from statistics import median
from typing import Any

import pytest

from refengine.errors import (
    Busy,
    Cancelled,
    DeadlinePassed,
)
from refengine.queue import CancelToken, Handle, MessageQueue

from ..roles import Role, until
from .ends import HeldBack, asleep, attach, pair, role_reader, writer_for

CHUNK = 4096
BIG = b"b" * 50_000


def test_a_timed_out_overflow_dequeue_has_no_effect():
    writer, reader = pair()
    held = HeldBack(reader)
    writer.enqueue(BIG, 5)
    writer.enqueue("after", 5)
    for timeout in (0.05, 0, -1):
        start = time.monotonic()
        with pytest.raises(DeadlinePassed, match="overflow"):
            reader.dequeue(timeout)
        assert max(0, timeout) <= time.monotonic() - start < 8
    held.release()
    assert reader.dequeue(5) == BIG
    assert reader.dequeue(5) == "after"
    reader.close()
    writer.close()


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


@pytest.mark.parametrize("timeout", [0.05, 0, -5])
def test_deadlines_hold_on_an_empty_and_on_a_full_ring(ends: Any, timeout: float):
    writer, reader = ends
    start = time.monotonic()
    with pytest.raises(DeadlinePassed):
        reader.dequeue(timeout)
    assert max(0, timeout) <= time.monotonic() - start < 8
    for i in range(4):
        writer.enqueue(i, timeout)
    start = time.monotonic()
    with pytest.raises(DeadlinePassed):
        writer.enqueue("no room", timeout)
    assert max(0, timeout) <= time.monotonic() - start < 8
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
            reader._reader._payloads.wait = type(reader._reader._payloads).wait.__get__(
                reader._reader._payloads
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
    assert time.monotonic() - fired[0] < 8  # 0.1 s, and a busy machine; unheard it is for ever
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
    assert time.monotonic() - start < 8
    if where == "overflow":
        held.release()
    else:
        writer.enqueue(BIG, 5)
    assert reader.dequeue(5) == BIG
    timer.join()
    reader.close()
    writer.close()


@pytest.mark.parametrize(
    ("side", "before"), [("reader", {}), ("reader", {"indefinite": True}), ("writer", {})]
)
def test_a_short_wait_long_after_another_is_not_called_long(
    side: str, before: dict[str, bool], caplog: pytest.LogCaptureFixture
):
    """The minute that is warned of is one call's own."""
    writer, reader = pair(max_chunks=1)
    later = 0.0

    def clock() -> float:
        return time.monotonic() + later

    writer._end._waiter._clock = reader._end._waiter._clock = clock
    if side == "writer":
        writer.enqueue("fills it", 5)

    def wait(**how: bool) -> None:
        if side == "writer":
            writer.enqueue("late", 0.05)
        else:
            reader.dequeue(0.05, **how)

    with pytest.raises(DeadlinePassed):
        wait(**before)
    later = 61.0
    with pytest.raises(DeadlinePassed):
        wait()
    assert not caplog.records
    reader.close()
    writer.close()


def test_an_idle_reader_wakes_for_every_publication():
    queue = writer_for(1)
    took: list[float] = []

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
            took.append(role.hear() - sent)
        role.finish()
    assert median(took) < 0.5  # 0.1 s; a busy machine delays some of them, not most
    queue.close()


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


def test_two_threads_in_one_end_get_each_message_once_or_busy():
    writer, reader = pair(max_chunks=16)
    got: list[int] = []

    def take() -> None:
        while len(got) < 400:
            try:
                got.append(reader.dequeue(0.5))
            except Busy:
                time.sleep(0.001)
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
