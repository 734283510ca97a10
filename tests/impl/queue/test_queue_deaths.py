"""Parties that die or leave, at any moment (Q6, Q7, Q10)."""

import os
import signal
import threading
import time
from typing import Any

import pytest

from refengine.errors import (
    AttachFailed,
    DeadlinePassed,
    PeerDied,
    QueueClosed,
)
from refengine.queue import Handle, MessageQueue

from ..roles import Role, leftovers, until
from .ends import attach, echo, role_reader, writer_for

CHUNK = 4096
BIG = b"b" * 50_000
NOTICED = 8.0
"""Seconds: 2 are promised, the rest is for a busy machine. Unnoticed it is 10."""


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
        assert time.monotonic() - start < NOTICED
        assert (caught.value.role, caught.value.pid) == ("writer", writer.pid)
        with pytest.raises(PeerDied):
            reader.dequeue(10)
        reader.close()
        if asleep:
            killer.join()
    assert not leftovers(writer.pid)


def test_a_writer_killed_before_its_payload_arrived_is_an_error_not_a_hang():
    def write(say: Any) -> None:
        with writer_for(1) as queue:
            say(queue.export_handle())
            queue.wait_until_ready(10)
            queue.enqueue("first", 5)
            queue._writer._local._payloads.send = lambda _: (1, 1)
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
        assert time.monotonic() - start < NOTICED
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
        assert time.monotonic() - start < NOTICED
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

    until(refused)


def test_waiting_for_readers_that_never_come_ends_at_the_deadline_and_can_be_retried():
    queue = writer_for(2)
    handle = queue.export_handle()
    with Role(echo, handle, 0) as first:
        start = time.monotonic()
        with pytest.raises(DeadlinePassed, match=r"\[1\]|\[0, 1\]"):
            queue.wait_until_ready(0.2)
        assert 0.2 <= time.monotonic() - start < 8
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
        assert time.monotonic() - start < NOTICED
    queue.close()
    assert not leftovers(os.getpid())


def test_a_reader_that_dies_after_its_welcome_is_an_error_at_the_waiting_writer():
    queue = writer_for(2)

    def wait(say: Any, handle: Handle) -> None:
        reader = MessageQueue.create_from_handle(handle, 0)
        arrive = reader._reader._handshake_step

        def told(left: Any) -> bool:
            say(reader._reader._handshake.welcomed)
            return arrive(left)

        reader._reader._handshake_step = told
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
        assert time.monotonic() - start < NOTICED
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
            assert time.monotonic() - start < NOTICED
            reader.close()
        else:
            writer.kill()
            with pytest.raises((PeerDied, AttachFailed)):
                MessageQueue.create_from_handle(handle, 0)
    assert not leftovers(writer.pid)


def test_names_are_gone_once_everybody_is_ready(ends: Any):
    assert not leftovers(os.getpid())
