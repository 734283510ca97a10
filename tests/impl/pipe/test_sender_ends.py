"""What a sender's steps leave behind, and in which order it tells what went wrong."""

import select
import threading
from queue import Empty
from typing import Any

import pytest

from refengine.errors import DeadlinePassed, PeerDied
from refengine.pipe.errors import PipeClosed, SendFailed, TensorsLost
from refengine.pipe.link import Reply, pack_reply
from refengine.pipe.send_queue import Transfer

from .pairs import GIVEN, Beside, Bytes, links, receiver, sender
from .whitebox.test_sender_steps import Handle, Torn, hand_in, unstarted


def test_close_tells_what_went_wrong_first():
    with unstarted() as (one, _):
        hand_in(one, Bytes(b"abc"))
        one.send_queue.advance()
        one._fail(OSError("before"))
        one._fail(OSError("amid"))
        with pytest.raises(SendFailed, match="OSError: before"):
            one.close(0.0)


class News:
    """Nothing new. Remembers for how long it was asked."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def get(self, timeout: float) -> None:
        self.seconds.append(timeout)
        raise Empty


@pytest.mark.parametrize(("considered", "asked"), [(True, []), (False, [1.0])])
def test_without_time_only_a_thread_that_has_not_looked_is_waited_for(
    considered: bool, asked: list[float]
):
    out, into = links()
    one = sender(out, clock=lambda: 5.0)
    transfer = Transfer(1)
    transfer.considered = considered
    news: Any = News()
    transfer.news = news
    with pytest.raises(DeadlinePassed, match="waited 0 s for room"):
        one._await_room(transfer, 0.0)
    assert news.seconds == asked
    one.close_now()
    into.close()


def test_each_transfer_is_asked_for_what_goes_beside_the_link():
    with unstarted() as (one, into):
        for number in (0, 1):
            snapshot = Handle(b"h")
            hand_in(one, snapshot)
            for _ in range(4):
                one._guarded_step()
            assert (snapshot.asked, one._awaited) == (1, True)
            into.sock.send(pack_reply(Reply.DONE, number))
            one._guarded_step()
            one._guarded_step()
            assert one.send_queue.number == number + 1


def test_a_link_that_is_full_is_waited_for():
    with unstarted() as (one, _):
        one._link.sock = Torn(one._link.sock, BlockingIOError(), BlockingIOError())
        slept: list[int] = []
        one._sleep = slept.append
        hand_in(one, Bytes(b"abc"))
        for _ in range(2):
            one._guarded_step()
        assert slept == [select.POLLIN | select.POLLOUT]
        assert one._end is None


def test_an_answer_that_comes_in_pieces_takes_nothing_of_the_next():
    with unstarted() as (one, into):
        done, bye = pack_reply(Reply.DONE, 99), pack_reply(Reply.BYE)
        into.sock.send(done[:100])
        one._hear()
        into.sock.send(done[100:] + bye)
        one._hear()
        with pytest.raises(PipeClosed, match="rank 1 has closed"):
            one.check()


def test_a_receiver_that_is_gone_amid_an_answer_is_dead():
    with unstarted() as (one, into):
        into.sock.send(pack_reply(Reply.BYE)[:100])
        one._hear()
        into.close()
        one._hear()
        with pytest.raises(PeerDied, match="rank 1"):
            one.check()


def test_a_thread_that_ended_and_could_not_say_why_is_called_so_and_holds_nothing():
    with unstarted() as (one, _):
        hand_in(one, Bytes(b"abc"))
        one._guarded_step()
        assert one._partial_write is not None
        one._finish()
        assert one._partial_write is None
        with pytest.raises(SendFailed, match="the pipe's thread has ended"):
            one.check()


def test_what_is_handed_in_while_the_goodbye_leaves_is_told_to_be_lost():
    """A call that copies its tensor while another closes, as the last of what was sent leaves."""
    copying, go_on, late = threading.Event(), threading.Event(), Bytes(b"late")

    def copied() -> Bytes:
        copying.set()
        assert go_on.wait(GIVEN)
        return late

    with unstarted() as (one, into):
        sends = Beside(one.send, len(late.data), copied, GIVEN)
        while not copying.is_set():
            assert sends.is_alive()
            one.send_queue.advance()
        one._close_by = one._clock() + GIVEN
        one._guarded_step()
        go_on.set()
        sends.result()
        while one._end is None:
            one._guarded_step()
        with pytest.raises(TensorsLost, match="1 tensor") as caught:
            one.close(GIVEN)
        assert caught.value.count == 1
        assert late.freed
        assert one.send_queue.nbytes() == 0
        end = receiver(into)
        with pytest.raises(PipeClosed, match="rank 0"):
            end.receive(GIVEN)
        end.close(1.0)


def test_a_goodbye_when_all_has_left_loses_nothing():
    with unstarted() as (one, into):
        one._close_by = one._clock() + GIVEN
        while one._end is None:
            one._guarded_step()
        one.close(GIVEN)
        with pytest.raises(PipeClosed, match="this rank"):
            one.check()
        end = receiver(into)
        with pytest.raises(PipeClosed, match="rank 0"):
            end.receive(GIVEN)
        end.close(1.0)
