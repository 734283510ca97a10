"""The sender's steps, one at a time, in the test's own thread."""

import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from refengine.errors import DeadlinePassed, PeerDied, PeerSilent
from refengine.pipe.errors import PipeClosed, SendFailed, TensorsLost, TransferFailed
from refengine.pipe.link import Link, Reply, pack_reply
from refengine.pipe.send_queue import Transfer
from refengine.pipe.sender import Sender

from ..pairs import GIVEN, Beside, Bytes, links, put, receiver, sender


@contextmanager
def unstarted() -> Iterator[tuple[Sender, Link]]:
    out, into = links()
    one = sender(out)
    try:
        yield one, into
    finally:
        one._unreported.clear()
        one.close_now()
        one._unreported.clear()
        into.close()


def hand_in(one: Sender, snapshot: Bytes) -> None:
    transfer = Transfer(len(snapshot.data))
    one.send_queue.ask(transfer)
    one.send_queue.advance()
    one.send_queue.hand_in(transfer, snapshot)


class Handle(Bytes):
    """What goes beside the link, until the receiver says that it has it."""

    asked = 0

    def beside(self) -> bool:
        self.asked += 1
        return True


class Torn:
    """A socket on which each call fails as it is told."""

    family = socket.AF_UNIX

    def __init__(self, sock: socket.socket, send: Exception, recv: Exception) -> None:
        self._sock, self._send, self._recv = sock, send, recv

    def __getattr__(self, name: str) -> object:
        return getattr(self._sock, name)

    def send(self, _rest: memoryview) -> int:
        raise self._send

    def recv(self, _count: int) -> bytes:
        raise self._recv


def test_what_the_receiver_said_before_it_went_is_heard():
    with unstarted() as (one, into):
        hand_in(one, Bytes(b"abc"))
        into.sock.send(pack_reply(Reply.BYE))
        into.close()
        one._guarded_step()
        one._guarded_step()
        with pytest.raises(PipeClosed, match="rank 1 has closed"):
            one.check()


def test_all_that_the_receiver_said_is_heard_at_once():
    with unstarted() as (one, into):
        into.sock.send(pack_reply(Reply.DONE, 99) + pack_reply(Reply.BYE))
        one._hear()
        with pytest.raises(PipeClosed, match="rank 1 has closed"):
            one.check()


class Joined:
    """A thread that lives on, whoever waits for it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def is_alive(self) -> bool:
        return True

    def join(self, seconds: float) -> None:
        self.seconds.append(seconds)


def test_closing_waits_for_its_thread_a_look_longer_than_for_what_leaves():
    with unstarted() as (one, _):
        one._thread = thread = Joined()
        one.close(0.5)
        one.close_now()
        assert thread.seconds == [1.5, 1.0]


@pytest.mark.parametrize(
    ("send", "recv", "told"),
    [
        (TimeoutError(), BlockingIOError(), PeerSilent),
        (ConnectionResetError(), BlockingIOError(), PeerDied),
        (BrokenPipeError(), TimeoutError(), PeerSilent),
        (BrokenPipeError(), ConnectionResetError(), PeerDied),
    ],
)
def test_how_a_link_broke_is_told(send: Exception, recv: Exception, told: type[Exception]):
    with unstarted() as (one, _):
        one._link.sock = Torn(one._link.sock, send, recv)
        hand_in(one, Bytes(b"abc"))
        one._guarded_step()
        one._guarded_step()
        with pytest.raises(told, match="rank 1"):
            one.check()


def test_one_that_cannot_go_has_nothing_beside_the_link():
    with unstarted() as (one, into):
        lost = Handle(b"lost", fail=OSError("no way"))
        hand_in(one, lost)
        for _ in range(4):
            one._guarded_step()
        assert one.send_queue.current is None
        assert one.send_queue.number == 1
        assert not lost.asked
        end = receiver(into)
        with pytest.raises(TransferFailed, match="no way"):
            end.receive(5.0)
        end.close(1.0)


def test_what_goes_beside_the_link_is_begun_once_and_awaited():
    with unstarted() as (one, into):
        snapshot = Handle(b"h")
        hand_in(one, snapshot)
        for _ in range(4):
            one._guarded_step()
        assert (snapshot.asked, snapshot.freed, one._awaited) == (1, 0, True)
        into.sock.send(pack_reply(Reply.DONE, 0))
        one._guarded_step()
        assert one._awaited is False
        one._guarded_step()
        assert (snapshot.asked, snapshot.freed, one.send_queue.number) == (1, 1, 1)


@pytest.mark.parametrize(("timeout", "told"), [(0.0, "0"), (-0.5, "-0.5")])
def test_a_thread_that_does_not_even_look_makes_no_call_wait_for_long(
    timeout: float, told: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("refengine.pipe.sender._POLL_INTERVAL", 0.01)
    with unstarted() as (one, _):
        with pytest.raises(DeadlinePassed, match=f"waited {told} s for room"):
            put(one, b"x", timeout)
        assert one.send_queue.advance() is None
        assert one.send_queue.nbytes() == 0


def test_an_error_amid_a_transfer_ends_the_pipe_and_one_before_it_does_not():
    with unstarted() as (one, _):
        hand_in(one, Bytes(b"abc"))
        one.send_queue.advance()
        one._fail(OSError("before"))
        assert one._end is None
        one._fail(OSError("amid"))
        with pytest.raises(SendFailed, match="tensor 0 was not sent: OSError: before"):
            one.check()
        with pytest.raises(SendFailed, match="tensor 0 was not sent: OSError: amid"):
            one.check()


def test_a_forked_child_has_no_copy_of_a_link():
    out, into = links()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if out.sock.fileno() == into.sock.fileno() == -1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert out.sock.fileno() >= 0
    out.close()
    into.close()


def test_an_end_that_was_told_is_told_to_every_later_call():
    with unstarted() as (one, into):
        hand_in(one, Bytes(b"abc"))
        into.close()
        one._guarded_step()
        one._guarded_step()
        for _ in range(3):
            with pytest.raises(PeerDied):
                one.check()


def test_a_deadline_is_not_over_before_it_is():
    out, into = links()
    now, looked = [5.0], threading.Semaphore(0)

    def clock() -> float:
        looked.release()
        return now[0]

    one, other = sender(out, 1, clock=clock), receiver(into)
    one.start()
    one.send_queue.ask(Transfer(1))
    waits = Beside(put, one, b"x", 1 / 64)
    for now[0] in (5.0, 5 + 1 / 128, 5 + 1 / 64 - 1 / 4096):
        for _ in range(5):
            assert looked.acquire(timeout=GIVEN), "it does not wait any more"
    now[0] = 5 + 1 / 64
    with pytest.raises(DeadlinePassed):
        waits.result()
    one.close_now()
    other.close(1.0)


def test_room_that_comes_before_the_deadline_is_taken():
    out, into = links()
    one, other = sender(out, 1, clock=lambda: 5.0), receiver(into)
    one.start()
    granted = Transfer(1)
    one.send_queue.ask(granted)
    waits = Beside(put, one, b"x", 0.9)
    while not any(each.considered for each in list(one.send_queue._asked)):
        assert waits.is_alive()
    one.send_queue.withdraw(granted)
    one._wakeup.wake()
    waits.result()
    assert other.receive(5.0)[0] == b"x"
    one.close_now()
    other.close(1.0)


def test_the_time_for_closing_ends_to_the_moment():
    out, into = links()
    one = sender(out, clock=lambda: 100.0)
    hand_in(one, Bytes(b"abc"))
    one._close_by = 100.0
    one._sleep(select.POLLIN)
    assert isinstance(one._end, TensorsLost)
    with pytest.raises(TensorsLost, match="1 tensor"):
        one.close(0.0)
    into.close()


def test_a_thread_that_is_left_behind_holds_no_interpreter_back():
    with unstarted() as (one, _):
        assert one._thread.daemon
