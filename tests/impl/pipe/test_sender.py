import pytest

from refengine.errors import DeadlinePassed, PeerDied, PeerSilent
from refengine.pipe.errors import MetadataRefused, PipeClosed, SendFailed, TensorsLost
from refengine.pipe.link import Reply, pack_reply

from .pairs import Beside, Bytes, ends, links, put, sender

LARGE = bytes(1 << 20)


def settled(end) -> None:
    """Its thread has seen what there is to see."""
    end._thread.join(5.0)
    assert not end._thread.is_alive()


def test_bytes_arrive_in_order_and_leave_no_account():
    with ends(limit=2 * len(LARGE)) as (one, other):
        for data in (b"abc", b"", LARGE, b"x"):
            put(one, data)
        assert [other.receive(5.0)[0] for _ in range(4)] == [b"abc", b"", LARGE, b"x"]
        one.close(5.0)
        assert one.send_queue.nbytes() == 0


def test_a_label_goes_with_it():
    with ends() as (one, other):
        put(one, Bytes(b"abc", b"of request 1"))
        assert other.receive(5.0)[1].rstrip(b"\0") == b"of request 1"


def test_a_call_without_room_ends_at_its_deadline_and_changes_nothing():
    with ends(limit=len(LARGE)) as (one, other):
        put(one, LARGE)
        snapshots: list[int] = []
        for timeout, told in ((0.05, "0.05"), (0.0, "0"), (-1.0, "-1")):
            says = f"waited {told} s for room: 1048576 bytes are not yet sent to rank 1"
            with pytest.raises(DeadlinePassed, match=says):
                one.send(1, lambda: snapshots.append(1) or Bytes(b"x"), timeout)
        assert not snapshots
        assert other.receive(5.0)[0] == LARGE
        put(one, b"next", 0.0)
        assert other.receive(5.0)[0] == b"next"


def test_a_sender_that_waits_goes_on_once_there_is_room():
    with ends(limit=len(LARGE)) as (one, other):
        put(one, LARGE)
        waits = [Beside(put, one, bytes([each])) for each in range(3)]
        assert other.receive(5.0)[0] == LARGE
        for each in waits:
            each.result()
        assert {other.receive(5.0)[0] for _ in range(3)} == {b"\0", b"\1", b"\2"}


def test_one_that_cannot_go_is_told_at_both_ends_and_the_next_ones_go():
    with ends() as (one, other):
        put(one, b"before")
        put(one, Bytes(b"lost", fail=OSError("no way")))
        assert other.receive(5.0)[0] == b"before"
        with pytest.raises(Exception, match="tensor 1 was not sent: OSError: no way") as caught:
            other.receive(5.0)
        assert type(caught.value).__name__ == "TransferFailed"
        with pytest.raises(SendFailed, match="tensor 1 was not sent: OSError: no way") as told:
            put(one, b"not sent")
        assert isinstance(told.value.__cause__, OSError)
        put(one, b"after")
        assert other.receive(5.0)[0] == b"after"
        one.close(5.0)
        assert one.send_queue.nbytes() == 0


def test_what_was_not_told_is_told_by_close_and_once():
    with ends() as (one, _):
        put(one, Bytes(b"lost", fail=OSError("no way")))
        with pytest.raises(SendFailed):
            one.close(5.0)
        one.close(5.0)
        with pytest.raises(PipeClosed, match="this rank"):
            put(one, b"x")


def test_a_snapshot_that_fails_is_raised_and_the_receiver_is_told():
    with ends() as (one, other):

        def snapshot() -> Bytes:
            raise MemoryError("none left")

        with pytest.raises(MemoryError):
            one.send(5, snapshot, 5.0)
        with pytest.raises(Exception, match="MemoryError: none left"):
            other.receive(5.0)
        put(one, b"after")
        assert other.receive(5.0)[0] == b"after"
        one.close(5.0)
        assert one.send_queue.nbytes() == 0


def test_a_call_that_is_interrupted_sends_nothing():
    with ends() as (one, other):

        def snapshot() -> Bytes:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            one.send(5, snapshot, 5.0)
        put(one, b"after")
        assert other.receive(5.0)[0] == b"after"
        one.close(5.0)
        assert one.send_queue.nbytes() == 0


def test_a_receiver_that_is_gone_ends_every_send_that_waits():
    with ends(limit=len(LARGE)) as (one, other):
        put(one, LARGE)
        waits = Beside(put, one, b"x", None)
        other._link.sock.close()
        with pytest.raises(PeerDied, match="rank 1"):
            waits.result()
        settled(one)
        assert one.send_queue.nbytes() == 0
        with pytest.raises(PeerDied):
            put(one, b"y")
        with pytest.raises(PeerDied):
            put(one, b"y")
        one.close(1.0)


def test_what_is_lost_by_a_death_is_told_by_close():
    with ends() as (one, other):
        put(one, LARGE)
        other._link.sock.close()
        settled(one)
        with pytest.raises(PeerDied):
            one.close(1.0)
        one.close(1.0)


def test_a_death_by_which_nothing_is_lost_lets_close_return():
    with ends() as (one, other):
        other._link.sock.close()
        settled(one)
        assert one.send_queue.nbytes() == 0
        one.close(1.0)


def test_a_receiver_that_has_closed_is_not_called_dead():
    with ends() as (one, other):
        other.close(1.0)
        settled(one)
        with pytest.raises(PipeClosed, match="rank 1 has closed"):
            put(one, b"x")


def test_a_receiver_that_refuses_is_quoted():
    with ends() as (one, other):
        other._link.sock.send(pack_reply(Reply.REFUSED, text="that is no header"))
        settled(one)
        with pytest.raises(MetadataRefused, match="rank 1 says: that is no header"):
            one.close(5.0)
        with pytest.raises(PipeClosed):
            put(one, b"x")


def test_answers_may_come_in_pieces_and_unknown_ones_are_passed_over():
    with ends() as (one, other):
        said = pack_reply(Reply.DONE, 99) + bytes([77]) + pack_reply(Reply.BYE)[1:]
        for piece in (said[:100], said[100:300], said[300:]):
            other._link.sock.send(piece)
        put(one, b"x")
        assert other.receive(5.0)[0] == b"x"
        other._link.sock.send(pack_reply(Reply.BYE))
        settled(one)


def test_close_gives_up_at_its_deadline_and_says_how_many_are_lost():
    out, into = links()
    one = sender(out, 4 * len(LARGE))
    one.start()
    for _ in range(3):
        put(one, LARGE)
    with pytest.raises(TensorsLost, match="3 tensor"):
        one.close(0.1)
    assert one.send_queue.nbytes() == 0
    assert out.sock.fileno() == -1
    into.close()


def test_close_hands_over_what_the_receiver_takes_late():
    with ends(limit=4 * len(LARGE)) as (one, other):
        for _ in range(3):
            put(one, LARGE)
        closes = Beside(one.close, 5.0)
        assert [other.receive(5.0)[0] for _ in range(3)] == [LARGE] * 3
        closes.result()
        with pytest.raises(PipeClosed, match="rank 0 has closed"):
            other.receive(5.0)


def test_one_that_was_never_started_closes_as_well():
    out, into = links()
    one = sender(out)
    one.close(1.0)
    assert out.sock.fileno() == -1
    with pytest.raises(PipeClosed):
        put(one, b"x")
    into.close()


def test_a_thread_that_fails_ends_the_pipe_and_says_so(monkeypatch: pytest.MonkeyPatch):
    with ends() as (one, other):
        waits = Beside(other.receive, 5.0)

        def strike(_events: int) -> None:
            raise ZeroDivisionError("struck")

        monkeypatch.setattr(one, "_sleep", strike)
        one._wakeup.wake()
        settled(one)
        with pytest.raises(SendFailed, match="ZeroDivisionError: struck"):
            put(one, b"x")
        with pytest.raises(PeerDied):
            waits.result()


def test_what_waits_beside_the_link_is_over_once_the_receiver_has_it():
    class Handle(Bytes):
        def beside(self) -> bool:
            return True

    with ends() as (one, other):
        put(one, Handle(b"h"))
        assert other.receive(5.0)[0] == b"h"
        assert one.send_queue.nbytes() == 1
        other._link.sock.send(pack_reply(Reply.DONE, 1))  # of another
        other._link.sock.send(pack_reply(Reply.DONE, 0))
        one.close(5.0)
        assert one.send_queue.nbytes() == 0


def test_a_transfer_handed_in_after_the_end_is_refused():
    with ends() as (one, other):

        def snapshot() -> Bytes:
            other._link.sock.close()
            settled(one)
            return Bytes(b"x")

        with pytest.raises(PeerDied):
            one.send(1, snapshot, 5.0)
        assert one.send_queue.nbytes() == 0


def test_threads_share_the_room_fairly():
    with ends(limit=1) as (one, other):
        many = [Beside(put, one, bytes([each])) for each in range(20)]
        got = {other.receive(5.0)[0] for _ in range(20)}
        for each in many:
            each.result()
        assert len(got) == 20
        one.close(5.0)


def test_a_machine_that_answers_nothing_is_called_silent():
    with ends() as (one, _):
        one._break(TimeoutError())
        one._wakeup.wake()
        settled(one)
        with pytest.raises(PeerSilent, match="rank 1 was not heard of for 10 s"):
            put(one, b"x")
