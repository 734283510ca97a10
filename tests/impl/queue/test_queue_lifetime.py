"""Close, collection, exit, fork (Q11, Q16, L1)."""

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from refengine.errors import (
    Cancelled,
    ForkedCopy,
    MessagesLost,
    QueueClosed,
)
from refengine.queue import Handle, MessageQueue

from ..roles import Role, leftovers, until
from .ends import attach, pair, writer_for

CHUNK = 4096
BIG = b"b" * 50_000


@pytest.mark.parametrize("how", ["close", "collect", "cycle", "exit"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_what_was_enqueued_is_delivered_whatever_ends_the_writer(how: str, method: str):
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    child = context.Process(target=write_and_end, args=(theirs, how))
    child.start()
    theirs.close()
    reader = attach(ours.recv())
    assert ours.recv() == "sent"
    start = time.monotonic()
    child.join(20)
    assert child.exitcode == 0
    assert [len(reader.dequeue(20)) for _ in range(3)] == [3_000_000, 5, 3_000_000]
    with pytest.raises(QueueClosed):
        reader.dequeue(20)
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
        queue.me = queue
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
        assert time.monotonic() - start < 8
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
        until(lambda: queue._end._guard.held)
    start = time.monotonic()
    queue.close(20)
    assert time.monotonic() - start < 10
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


class _Interrupt(BaseException):
    pass


@pytest.mark.parametrize("at", ["writer", "reader"])
def test_a_close_that_was_interrupted_is_done_by_the_next(at: str, monkeypatch: pytest.MonkeyPatch):
    """SPEC R9: nothing was said, so the other side must not take us for dead."""
    writer, reader = pair()
    writer.enqueue(b"last")
    struck, other = (writer, reader) if at == "writer" else (reader, writer)

    def interrupted(_seconds: float) -> None:
        monkeypatch.undo()
        raise _Interrupt

    monkeypatch.setattr(struck._end, "_shutdown", interrupted)
    with pytest.raises(_Interrupt):
        struck.close()
    struck.close()
    if at == "writer":
        assert other.dequeue(5) == b"last"
    with pytest.raises(QueueClosed):
        other.dequeue(5) if at == "writer" else until_told(other)
    other.close()
    assert not leftovers(os.getpid())


def until_told(writer: MessageQueue) -> None:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        writer.enqueue(b"more", 5)
