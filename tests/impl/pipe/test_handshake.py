"""A handshake without sockets: proofs, verdicts, locations, and reads of exact size."""

from typing import Any

import pytest

from refengine.base.security import Keys
from refengine.pipe.handshake import (
    HELLO_BYTES,
    PROOF_BYTES,
    VERDICT_BYTES,
    WELCOME_BYTES,
    ClientHandshake,
    ClientInfo,
    ServerHandshake,
    pack_verdict,
    parse_verdict,
    read_exactly,
)
from refengine.pipe.link import LOCATION_BYTES, Location
from refengine.pipe.transports.select import agreed_transport, machine_id

from .pairs import HERE

KEYS = Keys.fresh()
THERE = Location(b"m" * 16, b"d" * 16, "nccl")
ME = ClientInfo(2, 4, 1, 4711, THERE)


def test_both_know_each_other_and_have_a_key_of_their_own():
    one, other = ClientHandshake(KEYS, ME), ServerHandshake(KEYS, 42, HERE)
    welcome = other.welcome(one.hello)
    assert welcome is not None
    proof = one.proof(welcome)
    assert proof is not None
    assert other.proves(proof)
    assert other.client == ME
    assert (one.pid, one.location) == (42, HERE)
    assert one.session == other.session
    sizes = len(one.hello), len(welcome), len(proof)
    assert sizes == (HELLO_BYTES, WELCOME_BYTES, PROOF_BYTES)


def test_a_listener_with_another_key_gets_no_proof():
    one, other = ClientHandshake(KEYS, ME), ServerHandshake(Keys.fresh(), 42, HERE)
    assert one.proof(other.welcome(one.hello) or b"") is None


def test_a_caller_with_another_key_proves_nothing():
    stranger, other = ClientHandshake(Keys.fresh(), ME), ServerHandshake(KEYS, 42, HERE)
    welcome = other.welcome(stranger.hello)
    assert welcome is not None
    assert not other.proves(welcome[-PROOF_BYTES:])  # turned around
    assert not other.proves(bytes(PROOF_BYTES))


def test_who_has_heard_nothing_knows_nobody_and_believes_nothing():
    other = ServerHandshake(KEYS, 42, HERE)
    assert other.client is None
    assert not other.proves(bytes(PROOF_BYTES))


def test_nothing_that_was_said_before_can_be_said_again():
    one, other, again = (
        ClientHandshake(KEYS, ME),
        ServerHandshake(KEYS, 1, HERE),
        ServerHandshake(KEYS, 1, HERE),
    )
    proof = one.proof(other.welcome(one.hello) or b"") or b""
    assert other.proves(proof)
    assert again.welcome(one.hello) is not None
    assert not again.proves(proof)
    assert again.session != other.session


@pytest.mark.parametrize("at", [0, 5, 9, 13, 17, 25, HELLO_BYTES - 40])
def test_a_hello_that_was_changed_on_its_way_is_not_agreed_on(at: int):
    one, other = ClientHandshake(KEYS, ME), ServerHandshake(KEYS, 1, HERE)
    hello = bytearray(one.hello)
    hello[at] ^= 1
    welcome = other.welcome(bytes(hello))
    assert welcome is None or one.proof(welcome) is None


def test_a_verdict_is_of_one_size_and_its_reason_fits():
    assert parse_verdict(pack_verdict()) == ""
    assert parse_verdict(pack_verdict("no")) == "no"
    assert len(pack_verdict("x" * 999)) == VERDICT_BYTES
    assert parse_verdict(pack_verdict("x" * 999)) == "x" * 255


def test_a_place_is_told_whole():
    assert Location.unpack(THERE.pack()) == THERE
    assert len(THERE.pack()) == LOCATION_BYTES
    for unknown in (b"\x04", b"\x09"):
        with pytest.raises(ValueError, match="not known here"):
            Location.unpack(THERE.pack()[:32] + unknown + bytes(LOCATION_BYTES - 33))
    assert machine_id() == machine_id() != bytes(16)
    assert len(machine_id()) == 16


@pytest.mark.parametrize(
    ("one", "other", "way"),
    [
        (Location(b"m", b"d", "auto"), Location(b"m", b"d", "auto"), "cuda_ipc"),
        (Location(b"m", b"d", "auto"), Location(b"m", b"e", "auto"), "nccl"),
        (Location(b"m", b"d", "auto"), Location(b"n", b"d", "auto"), "nccl"),
        (Location(b"m", bytes(16), "auto"), Location(b"m", b"d", "auto"), "group"),
        (Location(b"m", b"d", "auto"), Location(b"m", bytes(16), "auto"), "group"),
        (Location(b"m", b"d", "group"), Location(b"m", b"d", "group"), "group"),
    ],
)
def test_the_way_follows_from_where_devices_are(one: Location, other: Location, way: str):
    assert agreed_transport(one, other) == way
    assert agreed_transport(other, one) == way


def test_ends_that_want_different_ways_do_not_agree():
    with pytest.raises(ValueError, match="one end wants the transport 'auto', the other 'nccl'"):
        agreed_transport(HERE, THERE)


class Slow:
    """Gives two bytes at a time, whatever it is asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.times: list[float] = []

    def settimeout(self, seconds: float) -> None:
        self.times.append(seconds)

    def recv(self, count: int) -> bytes:
        self.asked.append(count)
        return b"ab"[:count]


def test_no_byte_is_read_that_belongs_to_the_next_word():
    sock: Any = Slow()
    left = iter([3.0, 2.0, 1.0])
    assert read_exactly(sock, 5, lambda: next(left)) == b"ababa"
    assert sock.asked == [5, 3, 1]
    assert sock.times == [3.0, 2.0, 1.0]
