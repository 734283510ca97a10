"""Who has arrived: Q10, Q17, S3, as pure state."""

import pytest

from refengine.base.security import Keys
from refengine.queue.handshake import HELLO_BYTES, HandshakeState, Refusal, Welcome, hello_message

KEYS = Keys.fresh()


def arrived(meeting: HandshakeState, rank: int) -> bytes:
    welcome = meeting.hello(hello_message(rank, KEYS), 10 + rank)
    assert isinstance(welcome, Welcome)
    assert welcome.rank == rank
    return welcome.nonce


def test_a_reader_has_arrived_when_its_own_nonce_came_up():
    meeting = HandshakeState([0, 2], KEYS)
    nonce = arrived(meeting, 2)
    assert meeting.missing() == [0, 2]
    meeting.subscription(b"\1")  # the subscription to everything names nobody
    assert meeting.missing() == [0, 2]
    meeting.subscription(b"\1" + nonce)
    assert meeting.missing() == [0]
    meeting.subscription(b"\1" + arrived(meeting, 0))
    assert meeting.missing() == []


def test_a_departure_is_not_an_arrival():
    meeting = HandshakeState([0], KEYS)
    meeting.subscription(b"\0" + arrived(meeting, 0))
    assert meeting.missing() == [0]


@pytest.mark.parametrize("rank", [1, 2**31])
def test_an_unknown_rank_is_refused_and_the_writer_told(rank: int):
    verdict = HandshakeState([0], KEYS).hello(hello_message(rank, KEYS), 7)
    assert isinstance(verdict, Refusal)
    assert verdict.ours


def test_a_rank_is_given_once():
    meeting = HandshakeState([0], KEYS)
    arrived(meeting, 0)
    verdict = meeting.hello(hello_message(0, KEYS), 7)
    assert isinstance(verdict, Refusal)
    assert verdict.ours


@pytest.mark.parametrize(
    "message",
    [b"", b"x", bytes(HELLO_BYTES), hello_message(0, Keys.fresh())],
    ids=["empty", "short", "zeros", "wrong-key"],
)
def test_a_stranger_is_refused_without_troubling_the_writer(message: bytes):
    verdict = HandshakeState([0], KEYS).hello(message, 7)
    assert isinstance(verdict, Refusal)
    assert not verdict.ours


def test_a_hello_is_magic_rank_and_key():
    message = hello_message(258, KEYS)
    assert message == b"RFE1" + b"\0\0\1\2" + KEYS.secret
    assert len(message) == HELLO_BYTES == 40


@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        (b"", Refusal(-1, "that is no hello", False)),
        (hello_message(0, KEYS) + b"x", Refusal(-1, "that is no hello", False)),
        (hello_message(0, Keys.fresh()), Refusal(-1, "wrong key", False)),
        (b"RFE2" + hello_message(0, KEYS)[4:], Refusal(-1, "wrong key", False)),
        (hello_message(1, KEYS), Refusal(1, "unknown; the ranks are [0, 2]", True)),
    ],
    ids=["empty", "long", "wrong-key", "wrong-magic", "unknown"],
)
def test_a_refusal_says_why(message: bytes, refusal: Refusal):
    assert HandshakeState([2, 0], KEYS).hello(message, 7) == refusal


def test_a_caller_is_answered_the_same_again():
    meeting = HandshakeState([0, 2], KEYS)
    assert meeting.unheard() == 2
    assert arrived(meeting, 0) == arrived(meeting, 0)
    assert meeting.unheard() == 1
    arrived(meeting, 2)
    assert meeting.unheard() == 0
    assert meeting.missing() == [0, 2]


def test_a_rank_that_was_given_is_refused_with_its_number():
    meeting = HandshakeState([0, 2], KEYS)
    arrived(meeting, 2)
    assert meeting.hello(hello_message(2, KEYS), 7) == Refusal(
        2, "another reader already has it", True
    )
    assert isinstance(meeting.hello(hello_message(0, KEYS), 7), Welcome)


def test_each_welcome_has_a_nonce_of_its_own():
    meeting = HandshakeState([0, 1], KEYS)
    nonces = {arrived(meeting, rank) for rank in (0, 1)}
    assert [len(nonce) for nonce in nonces] == [16, 16]


@pytest.mark.parametrize("first", [b"", b"\0", b"\2", b"\1\1"], ids=["none", "0", "2", "1-1"])
def test_only_a_subscription_counts(first: bytes):
    meeting = HandshakeState([0], KEYS)
    meeting.subscription(first + arrived(meeting, 0))
    assert meeting.missing() == [0]
