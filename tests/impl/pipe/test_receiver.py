import itertools
import socket
from functools import partial

import pytest

from refengine.errors import Busy, DeadlinePassed, PeerDied, PeerSilent
from refengine.pipe.errors import MetadataRefused, PipeClosed, TransferFailed
from refengine.pipe.link import REPLY_BYTES, Reply, parse_reply
from refengine.pipe.protocol import Header, Kind, Metadata, Way

from ..striking import strikes
from .pairs import SESSION, Beside, links, receiver


def frame(number: int, data: bytes) -> bytes:
    told = Metadata("uint8", (len(data),))
    return Header(Kind.TENSOR, number, told, follows=len(data)).pack(SESSION) + data


def test_a_call_that_gives_up_halfway_is_gone_on_with():
    out, into = links()
    end = receiver(into)
    whole = frame(0, b"abcdef") + frame(1, b"next")
    first = len(frame(0, b"abcdef"))
    cuts = (0, 10, 200, first - 6, first - 2, len(whole))
    for sent, upto in itertools.pairwise(cuts):
        out.sock.send(whole[sent:upto])
        if upto < first:
            for timeout, told in ((0.0, "0"), (0.01, "0.01"), (-1.0, "-1")):
                with pytest.raises(
                    DeadlinePassed, match=f"waited {told} s for a tensor from rank 0"
                ):
                    end.receive(timeout)
    assert end.receive(1.0)[0] == b"abcdef"
    assert end.receive(1.0)[0] == b"next"
    end.close(1.0)
    out.close()


def test_one_may_wait_for_longer_than_the_kernel_does():
    out, into = links()
    end = receiver(into)
    waits = Beside(end.receive, 3e6)
    out.sock.send(frame(0, b"x"))
    assert waits.result()[0] == b"x"
    end.close(1.0)
    out.close()


def test_none_and_failures_keep_their_places():
    out, into = links()
    end = receiver(into)
    out.sock.send(Header(Kind.NOTHING, 0).pack(SESSION))
    out.sock.send(Header(Kind.FAILED, 1, follows=3).pack(SESSION) + b"why")
    out.sock.send(frame(2, b"x"))
    assert end.receive(1.0)[0] is None
    with pytest.raises(TransferFailed, match="tensor 1 was not sent: why"):
        end.receive(1.0)
    assert end.receive(1.0)[0] == b"x"
    end.close(1.0)
    out.close()


def test_a_goodbye_is_not_a_death_and_is_said_for_good():
    out, into = links()
    end = receiver(into)
    out.sock.send(frame(0, b"x") + Header(Kind.BYE, 1).pack(SESSION))
    out.close()
    assert end.receive(1.0)[0] == b"x"
    for _ in range(2):
        with pytest.raises(PipeClosed, match="rank 0 has closed"):
            end.receive(1.0)
    end.close(1.0)


@pytest.mark.parametrize("upto", [0, 10, 240, 245])
def test_an_end_without_goodbye_is_a_death(upto: int):
    out, into = links()
    end = receiver(into)
    out.sock.send(frame(0, b"abcdef")[:upto])
    waits = Beside(end.receive, None)
    out.close()
    with pytest.raises(PeerDied, match="rank 0"):
        waits.result()
    with pytest.raises(PeerDied):
        end.receive(0.0)
    end.close(1.0)


def test_what_is_refused_takes_no_memory_and_both_are_told():
    out, into = links()
    end = receiver(into, most=5)
    out.sock.send(frame(0, b"abcdef"))
    for _ in range(2):
        with pytest.raises(MetadataRefused, match="6 bytes, of at most 5"):
            end.receive(1.0)
    assert end._transport.rooms == []
    kind, _, text = parse_reply(out.sock.recv(REPLY_BYTES))
    assert (kind, text) == (Reply.REFUSED, "6 bytes, of at most 5")
    end.close(1.0)
    out.close()


def test_what_came_beside_the_link_is_acknowledged():
    out, into = links()
    end = receiver(into)
    told = Metadata("uint8", (100,))
    header = Header(Kind.TENSOR, 0, told, way=Way.CUDA_IPC, follows=4)
    out.sock.send(header.pack(SESSION) + b"hand")
    assert end.receive(1.0)[0] == b"hand"
    assert parse_reply(out.sock.recv(REPLY_BYTES))[:2] == (Reply.DONE, 0)
    end.close(1.0)
    out.close()


def test_close_says_goodbye_wakes_who_waits_and_may_be_said_again():
    out, into = links()
    end = receiver(into)
    waits = Beside(end.receive, None)
    end.close(1.0)
    with pytest.raises(PipeClosed, match="this rank"):
        waits.result()
    assert parse_reply(out.sock.recv(REPLY_BYTES)) == (Reply.BYE, 0, "")
    assert out.sock.recv(1) == b""
    assert end._transport.closed == 1
    end.close(1.0)
    for receive in (partial(end.receive, 1.0), Beside(end.receive, 1.0).result):
        with pytest.raises(PipeClosed, match="this rank"):
            receive()
    out.close()


def test_one_thread_may_receive_after_another():
    out, into = links()
    end = receiver(into)
    out.sock.send(frame(0, b"one") + Header(Kind.FAILED, 1).pack(SESSION) + frame(2, b"three"))
    assert Beside(end.receive, 1.0).result()[0] == b"one"
    with pytest.raises(TransferFailed):
        Beside(end.receive, 1.0).result()
    assert Beside(end.receive, 1.0).result()[0] == b"three"
    end.close(1.0)
    out.close()


def test_two_receives_at_once_are_one_too_many():
    out, into = links()
    end = receiver(into)
    waits = Beside(end.receive, None)
    while not end._guard.held:
        assert waits.is_alive()
    with pytest.raises(Busy):
        end.receive(1.0)
    out.sock.send(frame(0, b"x"))
    assert waits.result()[0] == b"x"
    end.close(1.0)
    out.close()


def test_an_exception_before_any_line_loses_and_repeats_nothing():
    """SPEC R9, X1."""
    for striker in strikes():
        out, into = links()
        end = receiver(into)
        out.sock.send(frame(0, b"one") + frame(1, b"two"))
        got = [found[0] for found in striker.during(partial(end.receive, 1.0))]
        while len(got) < 2:
            got.append(end.receive(1.0)[0])
        assert got == [b"one", b"two"], striker.where
        end.close(1.0)
        out.close()


def test_an_exception_in_close_leaves_it_to_be_said_again():
    for striker in strikes():
        out, into = links()
        end = receiver(into)
        striker.during(partial(end.close, 1.0))
        end.close(1.0)
        assert into.sock.fileno() == -1, striker.where
        assert end._wakeup.fileno() == -1, striker.where
        out.close()


class Cut:
    """A socket whose peer the kernel has given up, once."""

    family = socket.AF_UNIX

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self.told = sock, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._sock, name)

    def recv_into(self, _memory: memoryview) -> int:
        self.told += 1
        raise TimeoutError if self.told == 1 else ConnectionResetError


def test_a_machine_that_answers_nothing_is_called_silent_for_good():
    out, into = links()
    end = receiver(into)
    into.sock = Cut(into.sock)
    for _ in range(2):
        with pytest.raises(PeerSilent, match="rank 0 was not heard of for 10 s"):
            end.receive(1.0)
    end.close(1.0)
    out.close()
