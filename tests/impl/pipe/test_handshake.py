import pytest

from refengine.base.security import Keys
from refengine.pipe.handshake import (
    HELLO_BYTES,
    PROOF_BYTES,
    VERDICT_BYTES,
    WELCOME_BYTES,
    Caller,
    Connecting,
    Listening,
    refusal,
    verdict,
)
from refengine.pipe.places import PLACE_BYTES, Place, this_machine, way_between

from .pairs import HERE

KEYS = Keys.fresh()
THERE = Place(b"m" * 16, b"d" * 16, "nccl")
ME = Caller(2, 4, 1, 4711, THERE)


def test_both_know_each_other_and_have_a_key_of_their_own():
    one, other = Connecting(KEYS, ME), Listening(KEYS, 42, HERE)
    welcome = other.welcome(one.hello)
    assert welcome is not None
    proof = one.proof(welcome)
    assert proof is not None
    assert other.proves(proof)
    assert other.caller == ME
    assert (one.pid, one.place) == (42, HERE)
    assert one.session == other.session
    sizes = len(one.hello), len(welcome), len(proof)
    assert sizes == (HELLO_BYTES, WELCOME_BYTES, PROOF_BYTES)


def test_a_listener_with_another_key_gets_no_proof():
    one, other = Connecting(KEYS, ME), Listening(Keys.fresh(), 42, HERE)
    assert one.proof(other.welcome(one.hello) or b"") is None


def test_a_caller_with_another_key_proves_nothing():
    stranger, other = Connecting(Keys.fresh(), ME), Listening(KEYS, 42, HERE)
    welcome = other.welcome(stranger.hello)
    assert welcome is not None
    assert not other.proves(welcome[-PROOF_BYTES:])  # turned around
    assert not other.proves(bytes(PROOF_BYTES))


def test_who_has_heard_nothing_knows_nobody_and_believes_nothing():
    other = Listening(KEYS, 42, HERE)
    assert other.caller is None
    assert not other.proves(bytes(PROOF_BYTES))


def test_nothing_that_was_said_before_can_be_said_again():
    one, other, again = Connecting(KEYS, ME), Listening(KEYS, 1, HERE), Listening(KEYS, 1, HERE)
    proof = one.proof(other.welcome(one.hello) or b"") or b""
    assert other.proves(proof)
    assert again.welcome(one.hello) is not None
    assert not again.proves(proof)
    assert again.session != other.session


@pytest.mark.parametrize("at", [0, 5, 9, 13, 17, 25, HELLO_BYTES - 40])
def test_a_hello_that_was_changed_on_its_way_is_not_agreed_on(at: int):
    one, other = Connecting(KEYS, ME), Listening(KEYS, 1, HERE)
    hello = bytearray(one.hello)
    hello[at] ^= 1
    welcome = other.welcome(bytes(hello))
    assert welcome is None or one.proof(welcome) is None


def test_a_verdict_is_of_one_size_and_its_reason_fits():
    assert refusal(verdict()) == ""
    assert refusal(verdict("no")) == "no"
    assert len(verdict("x" * 999)) == VERDICT_BYTES
    assert refusal(verdict("x" * 999)) == "x" * 255


def test_a_place_is_told_whole():
    assert Place.unpack(THERE.pack()) == THERE
    assert len(THERE.pack()) == PLACE_BYTES
    for unknown in (b"\x04", b"\x09"):
        with pytest.raises(ValueError, match="not known here"):
            Place.unpack(THERE.pack()[:32] + unknown + bytes(PLACE_BYTES - 33))
    assert this_machine() == this_machine() != bytes(16)
    assert len(this_machine()) == 16


@pytest.mark.parametrize(
    ("one", "other", "way"),
    [
        (Place(b"m", b"d", "auto"), Place(b"m", b"d", "auto"), "cuda_ipc"),
        (Place(b"m", b"d", "auto"), Place(b"m", b"e", "auto"), "nccl"),
        (Place(b"m", b"d", "auto"), Place(b"n", b"d", "auto"), "nccl"),
        (Place(b"m", bytes(16), "auto"), Place(b"m", b"d", "auto"), "group"),
        (Place(b"m", b"d", "auto"), Place(b"m", bytes(16), "auto"), "group"),
        (Place(b"m", b"d", "group"), Place(b"m", b"d", "group"), "group"),
    ],
)
def test_the_way_follows_from_where_devices_are(one: Place, other: Place, way: str):
    assert way_between(one, other) == way
    assert way_between(other, one) == way


def test_ends_that_want_different_ways_do_not_agree():
    with pytest.raises(ValueError, match="one end wants the transport 'auto', the other 'nccl'"):
        way_between(HERE, THERE)
