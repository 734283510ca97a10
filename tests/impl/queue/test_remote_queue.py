"""Remote readers: nobody is skipped, breaks lose nothing, ends are told (SPEC Q5, Q17, Q18)."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refengine.errors import (
    AttachFailed,
    DeadlinePassed,
    PeerDied,
    PeerSilent,
    QueueClosed,
    RankRefused,
)
from refengine.queue import CancelToken, Handle, MessageQueue
from refengine.ring.layout import WRITER_SLEEPS
from refengine.transport import io_thread

from ..collecting import collected_in, in_a_cycle
from ..relay import Relay
from ..roles import Role, descriptors, until
from .ends import CHUNK

SILENCE = 1.5


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def queue(undo: ExitStack, readers: int = 1, local: int = 0, **seams: Any) -> MessageQueue:
    made = MessageQueue(
        readers,
        local,
        **({"max_chunk_bytes": CHUNK, "max_chunks": 4, "peer_timeout": SILENCE} | seams),
    )
    undo.callback(made.close)
    return made


def full_for_local(undo: ExitStack, **seams: Any) -> tuple[MessageQueue, MessageQueue, Role]:
    """A writer whose slots are full, the local reader that they wait for, a remote one's role."""
    writer = queue(undo, 2, 1, **seams)
    handle = writer.export_handle()
    local = MessageQueue.create_from_handle(handle, 0)
    undo.callback(local.close)
    remote = undo.enter_context(Role(echo, handle, 1))
    meeting = threading.Thread(target=local.wait_until_ready, args=(10,))
    meeting.start()
    writer.wait_until_ready(10)
    meeting.join()
    for number in range(4):
        writer.enqueue(number, 5)
    return writer, local, remote


def echo(say: Any, handle: Handle, rank: int) -> None:
    """Say everything received, then the error that ends it."""
    with MessageQueue.create_from_handle(handle, rank) as reader:
        reader.wait_until_ready(10)
        say("ready")
        while True:
            try:
                say(reader.dequeue(20))
            except Exception as error:
                say(error)
                return


def started(undo: ExitStack, writer: MessageQueue, handle: Handle | None = None) -> list[Role]:
    """A role for each reader, and the handshake."""
    handle = handle or writer.export_handle()
    roles = [undo.enter_context(Role(echo, handle, rank)) for rank in range(handle.n_reader)]
    writer.wait_until_ready(10)
    for role in roles:
        assert role.hear() == "ready"
    return roles


def near(
    undo: ExitStack, writer: MessageQueue, handle: Handle | None = None, **seams: Any
) -> MessageQueue:
    """A remote reader in this process."""
    reader = MessageQueue.create_from_handle(handle or writer.export_handle(), 0, **seams)
    undo.callback(reader.close)
    meeting = threading.Thread(target=writer.wait_until_ready, args=(10,))
    meeting.start()
    reader.wait_until_ready(10)
    meeting.join()
    return reader


def relayed(undo: ExitStack, writer: MessageQueue) -> tuple[Relay, Handle]:
    handle = writer.export_handle()
    relay = Relay(handle.remote)
    undo.callback(relay.close)
    return relay, replace(handle, remote=relay.address)


def fill(writer: MessageQueue) -> None:
    """Send until told not to."""
    for _ in range(20):
        writer.enqueue("x", 10)


def drain(reader: MessageQueue, into: list[Any]) -> None:
    """Receive until told not to."""
    while True:
        into.append(reader.dequeue(10))


@pytest.mark.parametrize(("readers", "local"), [(1, 0), (2, 0), (2, 1), (4, 2)])
def test_every_reader_gets_every_message_in_order(undo: ExitStack, readers: int, local: int):
    writer = queue(undo, readers, local)
    roles = started(undo, writer)
    sizes = [*range(CHUNK - 20, CHUNK + 20), 0, 100_000]
    for number, size in enumerate(sizes):
        writer.enqueue((number, b"x" * size), 10)
    writer.close()
    for role in roles:
        said = role.finish()[1:]
        assert [(n, len(b)) for n, b in said[:-1]] == list(enumerate(sizes))
        assert isinstance(said[-1], QueueClosed)


def test_ipv6_works_and_is_the_only_thing_listened_at(undo: ExitStack):
    writer = queue(undo, connect_ip="::1")
    assert writer.export_handle().remote.startswith("tcp://[::1]:")
    reader = near(undo, writer)
    writer.enqueue("x", 5)
    assert reader.dequeue(5) == "x"


def test_a_local_queue_listens_at_no_port(undo: ExitStack):
    assert queue(undo, 1, 1).export_handle().remote == ""


def test_the_object_may_change_right_after_its_enqueue(undo: ExitStack):
    writer = queue(undo)
    reader = near(undo, writer)
    array = np.arange(1 << 20)
    writer.enqueue(array, 5)
    array[:] = 0
    assert np.array_equal(reader.dequeue(10), np.arange(1 << 20))


def test_a_slow_reader_slows_the_writer_and_loses_nothing(undo: ExitStack):
    writer = queue(undo)
    reader = near(undo, writer)
    for number in range(4):
        writer.enqueue(number, 5)
    with pytest.raises(DeadlinePassed, match="remote reader"):
        writer.enqueue(4, 0.3)
    for number in range(4):
        assert reader.dequeue(5) == number
    writer.enqueue("after", 5)
    assert reader.dequeue(5) == "after"


@pytest.mark.parametrize("slots", [2, 3, 10])
def test_a_writer_that_waits_gets_the_first_slot_that_is_free(undo: ExitStack, slots: int):
    writer = queue(undo, max_chunks=slots)
    reader = near(undo, writer)
    for number in range(slots):
        writer.enqueue(number, 5)
    until(lambda: len(reader._end._inbox) == slots)
    assert reader.dequeue(5) == 0
    writer.enqueue("more", 5)
    assert [reader.dequeue(5) for _ in range(slots)] == [*range(1, slots), "more"]


def test_a_local_reader_that_is_slow_holds_the_remote_one_back_too(undo: ExitStack):
    writer, local, remote = full_for_local(undo)
    with pytest.raises(DeadlinePassed, match="free slot"):
        writer.enqueue(4, 0.1)
    assert [remote.hear() for _ in range(5)][1:] == [0, 1, 2, 3]
    assert local.dequeue(5) == 0
    writer.enqueue(4, 5)
    assert remote.hear() == 4


@pytest.mark.parametrize("timeout", [0, -1, 0.2])
def test_a_deadline_is_kept_and_changes_nothing(undo: ExitStack, timeout: float):
    writer = queue(undo)
    reader = near(undo, writer)
    began = time.monotonic()
    with pytest.raises(DeadlinePassed):
        reader.dequeue(timeout)
    assert time.monotonic() - began >= timeout
    writer.enqueue("x", 5)
    assert reader.dequeue(5) == "x"


def test_cancel_and_shutdown_wake_a_remote_reader(undo: ExitStack):
    writer = queue(undo)
    reader = near(undo, writer)
    token = CancelToken()
    for end in (token.set, reader.shutdown):
        woken: list[BaseException] = []

        def wait(woken: list[BaseException] = woken) -> None:
            try:
                reader.dequeue(20, cancel=token if not token.is_set() else None)
            except Exception as error:
                woken.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: reader._end._guard.held)
        end()
        thread.join(5)
        assert woken
        assert type(woken[0]).__name__ == "Cancelled"


@pytest.mark.parametrize("way", ["reset", "in", "out", "both"])
def test_a_break_shorter_than_the_silence_loses_nothing(undo: ExitStack, way: str):
    writer = queue(undo, peer_timeout=4.0)
    relay, handle = relayed(undo, writer)
    roles = started(undo, writer, handle)
    for number in range(60):
        writer.enqueue((number, bytes(number * 100)), 10)
        if number in (20, 40):
            if way == "reset":
                relay.reset()
            else:
                relay.cut(*([way] if way != "both" else []))
                healer = threading.Timer(1.0, relay.heal)
                healer.start()
    writer.close()
    said = roles[0].finish(30)[1:]
    assert [n for n, _ in said[:-1]] == list(range(60))
    assert isinstance(said[-1], QueueClosed)


def test_a_cut_past_the_silence_is_told_to_both(undo: ExitStack):
    writer = queue(undo)
    relay, handle = relayed(undo, writer)
    reader = near(undo, writer, handle)
    writer.enqueue("before", 5)
    assert reader.dequeue(5) == "before"
    relay.cut()
    began = time.monotonic()
    with pytest.raises(PeerSilent, match="writer"):
        reader.dequeue(SILENCE * 12)
    with pytest.raises(PeerSilent, match="reader 0"):
        fill(writer)
    assert time.monotonic() - began < SILENCE * 6


def test_a_killed_reader_is_told_to_the_writer(undo: ExitStack):
    writer = queue(undo, peer_timeout=10.0)
    (role,) = started(undo, writer)
    began = time.monotonic()
    role.kill()
    with pytest.raises(PeerDied, match="reader 0"):
        fill(writer)
    assert time.monotonic() - began < 7, "2 s are promised, the rest is for a busy machine"


def test_a_killed_reader_is_told_to_a_writer_that_waits_for_a_local_one(undo: ExitStack):
    """SPEC Q7: a pending call, too; nothing else may ever end it."""
    writer, _, remote = full_for_local(undo, peer_timeout=10.0)
    assert [remote.hear() for _ in range(5)][1:] == [0, 1, 2, 3]
    told: list[Exception] = []

    def send() -> None:
        try:
            writer.enqueue(4, 12)
        except Exception as error:
            told.append(error)

    sending = threading.Thread(target=send)
    sending.start()
    assert writer._end.ring is not None
    cells = writer._end.ring.cells
    until(lambda: cells[WRITER_SLEEPS] != 0)
    remote.kill()
    sending.join(20)
    assert [type(error) for error in told] == [PeerDied], told
    assert "reader 1" in str(told[0])


def test_a_killed_reader_may_be_gone_without(undo: ExitStack):
    writer = queue(undo, 2, reader_policy="continue", peer_timeout=10.0)
    roles = started(undo, writer)
    writer.enqueue("x", 5)
    roles[0].kill()
    for number in range(20):
        writer.enqueue(number, 10)
    writer.close()
    assert roles[1].finish()[2:-1] == list(range(20))


def test_a_killed_writer_is_told_after_what_it_sent(undo: ExitStack):
    def write(say: Any) -> None:
        writer = MessageQueue(1, 0, max_chunk_bytes=CHUNK)
        say(writer.export_handle())
        writer.wait_until_ready(10)
        for number in range(5):
            writer.enqueue(number, 5)
        say("sent")
        signal.pause()

    role = undo.enter_context(Role(write))
    reader = MessageQueue.create_from_handle(role.hear(), 0)
    undo.callback(reader.close)
    reader.wait_until_ready(10)
    assert role.hear() == "sent"
    assert reader.dequeue(5) == 0
    role.kill()
    began = time.monotonic()
    got: list[int] = []
    with pytest.raises(PeerDied, match="writer"):
        drain(reader, got)
    assert got == list(range(1, 1 + len(got)))
    assert time.monotonic() - began < 7


def test_a_forked_child_that_lives_on_does_not_hide_the_writers_death(undo: ExitStack):
    def write(say: Any) -> None:
        writer = MessageQueue(1, 0, max_chunk_bytes=CHUNK)
        say(writer.export_handle())
        writer.wait_until_ready(10)
        child = os.fork()
        if child == 0:
            signal.pause()
        say(child)
        signal.pause()

    role = undo.enter_context(Role(write))
    reader = MessageQueue.create_from_handle(role.hear(), 0)
    undo.callback(reader.close)
    reader.wait_until_ready(10)
    child = role.hear()
    undo.callback(os.kill, child, signal.SIGKILL)
    role.kill()
    began = time.monotonic()
    with pytest.raises(PeerDied):
        reader.dequeue(20)
    assert time.monotonic() - began < 7


def test_closing_delivers_what_was_enqueued(undo: ExitStack):
    writer = queue(undo)
    roles = started(undo, writer)
    for _ in range(3):
        writer.enqueue(bytes(5 << 20), 20)
    began = time.monotonic()
    writer.close()
    assert time.monotonic() - began < 3
    said = roles[0].finish()[1:]
    errors = [each for each in said if isinstance(each, Exception)]
    lost = sum(getattr(error, "count", 0) for error in errors)
    assert len(said) - len(errors) + lost == 3, errors


def test_a_writer_that_is_gone_is_told_at_attaching(undo: ExitStack):
    writer = queue(undo)
    handle = writer.export_handle()
    writer.close()
    with pytest.raises(AttachFailed):
        MessageQueue.create_from_handle(handle, 0)


def test_ranks_that_are_unknown_or_taken_are_refused_on_both_sides(undo: ExitStack):
    writer = queue(undo, 2, 1)
    handle = writer.export_handle()
    for rank in (2, -1):
        with pytest.raises(RankRefused):
            MessageQueue.create_from_handle(handle, rank)
    with pytest.raises(RankRefused):  # a remote rank, and no address
        MessageQueue.create_from_handle(replace(handle, remote=""), 1)
    first = MessageQueue.create_from_handle(handle, 1)
    undo.callback(first.close)
    with pytest.raises(DeadlinePassed):
        first.wait_until_ready(0.3)
    second = MessageQueue.create_from_handle(handle, 1)
    undo.callback(second.close)
    with pytest.raises(RankRefused, match="another party"):
        second.wait_until_ready(5)
    with pytest.raises(RankRefused):
        writer.wait_until_ready(5)


def test_a_reader_that_leaves_before_all_are_there_is_no_arrival(undo: ExitStack):
    writer = queue(undo, 2)
    early = MessageQueue.create_from_handle(writer.export_handle(), 0)
    with pytest.raises(DeadlinePassed):
        early.wait_until_ready(0.3)
    early.close()
    with pytest.raises(QueueClosed):
        writer.wait_until_ready(5)


def test_the_handle_shows_no_secret(undo: ExitStack):
    handle = queue(undo, 2, 1).export_handle()
    for secret in (handle.keys.secret, handle.keys.curve("listens")[1]):
        assert secret.hex() not in repr(handle)
        assert repr(secret)[2:-1] not in repr(handle)


def test_an_exception_between_slot_and_line_leaves_the_message_whole(undo: ExitStack):
    """SPEC R9: published to local readers, so remote ones get it too."""
    writer = queue(undo, 2, 1)
    local, remote = started(undo, writer)
    sending = writer._writer
    assert sending is not None
    assert sending._remote is not None
    post = sending._remote.post

    def interrupted(number: int, body: bytearray) -> None:
        sending._remote.post = post
        raise KeyboardInterrupt

    sending._remote.post = interrupted
    with pytest.raises(KeyboardInterrupt):
        writer.enqueue("one", 5)
    writer.enqueue("two", 5)
    writer.close()
    assert local.finish()[1:3] == ["one", "two"]
    assert remote.finish()[1:3] == ["one", "two"]


def test_a_reader_does_not_wait_to_say_goodbye_to_a_writer_that_has_gone(
    undo: ExitStack, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(io_thread, "_FLUSH_MOST", 60.0)
    writer = queue(undo)
    reader = near(undo, writer)
    writer.close()
    with pytest.raises(QueueClosed):
        reader.dequeue(5)
    until(lambda: not any(p.hung_up() is False for p in reader._end._client._keepalives()))
    began = time.monotonic()
    reader.close(60)
    assert time.monotonic() - began < 30


def test_a_writer_that_its_own_thread_collects_closes_towards_every_reader(undo: ExitStack):
    before = descriptors()
    with collected_in("Server") as clock:
        made = [MessageQueue(2, 1, peer_timeout=SILENCE, clock=clock)]
        local, remote = started(undo, made[0])
        made[0].enqueue("last", 10)
        in_a_cycle(made.pop())
        clock.due = True
        for role in (local, remote):
            assert role.hear() == "last"
            assert isinstance(role.hear(), QueueClosed)
    undo.close()
    until(lambda: descriptors() <= before)


def test_a_reader_that_its_own_thread_collects_gives_everything_back(undo: ExitStack):
    writer = queue(undo)
    before = descriptors()
    with collected_in("Client") as clock:
        reader = MessageQueue.create_from_handle(writer.export_handle(), 0, clock=clock)
        made = [reader]
        meeting = threading.Thread(target=writer.wait_until_ready, args=(10,))
        meeting.start()
        reader.wait_until_ready(10)
        meeting.join()
        del reader
        in_a_cycle(made.pop())
        clock.due = True
        with pytest.raises(QueueClosed):
            fill(writer)
        until(lambda: descriptors() <= before)
