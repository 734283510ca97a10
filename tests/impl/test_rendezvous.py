"""Who has arrived: Q10, Q17, S3, as pure state."""

import pytest

from refengine.rendezvous import HELLO_BYTES, Refusal, Rendezvous, Welcome, hello
from refengine.security import Keys

KEYS = Keys.fresh()


def arrived(meeting: Rendezvous, rank: int) -> bytes:
    welcome = meeting.hello(hello(rank, KEYS), 10 + rank)
    assert isinstance(welcome, Welcome)
    assert welcome.rank == rank
    return welcome.nonce


def test_a_reader_has_arrived_when_its_own_nonce_came_up():
    meeting = Rendezvous([0, 2], KEYS)
    nonce = arrived(meeting, 2)
    assert meeting.missing() == [0, 2]
    meeting.subscription(b"\1")  # the subscription to everything names nobody
    assert meeting.missing() == [0, 2]
    meeting.subscription(b"\1" + nonce)
    assert meeting.missing() == [0]
    meeting.subscription(b"\1" + arrived(meeting, 0))
    assert meeting.missing() == []


def test_a_departure_is_not_an_arrival():
    meeting = Rendezvous([0], KEYS)
    meeting.subscription(b"\0" + arrived(meeting, 0))
    assert meeting.missing() == [0]


@pytest.mark.parametrize("rank", [1, 2**31])
def test_an_unknown_rank_is_refused_and_the_writer_told(rank: int):
    verdict = Rendezvous([0], KEYS).hello(hello(rank, KEYS), 7)
    assert isinstance(verdict, Refusal)
    assert verdict.ours


def test_a_rank_is_given_once():
    meeting = Rendezvous([0], KEYS)
    arrived(meeting, 0)
    verdict = meeting.hello(hello(0, KEYS), 7)
    assert isinstance(verdict, Refusal)
    assert verdict.ours


@pytest.mark.parametrize(
    "message",
    [b"", b"x", bytes(HELLO_BYTES), hello(0, Keys.fresh())],
    ids=["empty", "short", "zeros", "wrong-key"],
)
def test_a_stranger_is_refused_without_troubling_the_writer(message: bytes):
    verdict = Rendezvous([0], KEYS).hello(message, 7)
    assert isinstance(verdict, Refusal)
    assert not verdict.ours
