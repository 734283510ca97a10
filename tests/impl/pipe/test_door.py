"""A door by itself, in a thread and a time that the test holds: who may stay before it."""

import socket
import struct
from collections.abc import Iterator

import pytest

from refengine.base.security import Keys, SocketFactory
from refengine.pipe.door import Door, _say
from refengine.pipe.handshake import CONTROL, PROOF_BYTES, WELCOME_BYTES, Caller, Connecting

from .pairs import HERE

KEYS = Keys.fresh()
PATIENCE = 5.0


class Hour:
    """A clock that goes when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hour() -> Hour:
    return Hour()


@pytest.fixture
def door(hour: Hour) -> Iterator[Door]:
    made = Door(
        "127.0.0.1",
        0,
        KEYS,
        2,
        HERE,
        {(1, CONTROL)},
        patience=PATIENCE,
        sockets=SocketFactory(),
        clock=hour,
    )
    yield made
    made.drop()


def caller(door: Door) -> tuple[socket.socket, Connecting]:
    sock = socket.create_connection(("127.0.0.1", door.port))
    sock.settimeout(5.0)
    return sock, Connecting(KEYS, Caller(1, 2, CONTROL, 7, HERE))


def test_a_hello_may_come_in_pieces(door: Door):
    sock, hands = caller(door)
    for piece in (hands.hello[:10], hands.hello[10:]):
        sock.send(piece)
        door.wait(5.0)
        door.wait(0.0)
        assert len(door._strangers) == 1
    assert hands.proof(sock.recv(WELCOME_BYTES)) is not None
    sock.close()


def test_what_comes_behind_a_hello_is_no_part_of_it(door: Door):
    sock, hands = caller(door)
    for piece in (hands.hello[:10], hands.hello[10:] + bytes(PROOF_BYTES)):
        sock.send(piece)
        door.wait(5.0)
        door.wait(0.0)
    assert hands.proof(sock.recv(WELCOME_BYTES)) is not None
    assert sock.recv(1) == b""  # what was taken for its proof proved nothing
    assert not door._strangers
    sock.close()


def test_who_hangs_up_amid_its_hello_is_forgotten(door: Door):
    sock, hands = caller(door)
    sock.send(hands.hello[:10])
    door.wait(5.0)
    door.wait(0.0)
    assert len(door._strangers) == 1
    sock.close()
    door.wait(5.0)
    assert not door._strangers


def test_who_proves_nothing_is_sent_away_at_once(door: Door):
    sock, hands = caller(door)
    sock.send(hands.hello)
    door.wait(5.0)
    door.wait(0.0)
    assert len(sock.recv(WELCOME_BYTES)) == WELCOME_BYTES
    sock.send(bytes(PROOF_BYTES))
    door.wait(5.0)
    assert sock.recv(1) == b""
    assert not door._strangers
    assert not door.came
    sock.close()


def test_who_breaks_off_is_forgotten(door: Door):
    sock, _ = caller(door)
    door.wait(5.0)
    assert len(door._strangers) == 1
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    door.wait(5.0)
    assert not door._strangers


def test_patience_ends_to_the_moment(door: Door, hour: Hour):
    sock, _ = caller(door)
    door.wait(5.0)
    hour.now += PATIENCE - 0.001
    door.wait(0.0)
    assert len(door._strangers) == 1
    hour.now += 0.001
    door.wait(None)  # it knows by itself until when
    assert not door._strangers
    assert sock.recv(1) == b""
    sock.close()


def test_of_too_many_the_first_must_go_and_there_is_room_for_the_next(door: Door):
    socks = [caller(door)[0] for _ in range(70)]
    door.wait(5.0)
    assert len(door._strangers) == 63
    assert [each.recv(1) for each in socks[:7]] == [b""] * 7
    door.close()
    assert socks[-1].recv(1) == b""
    for each in socks:
        each.close()


def test_whoever_was_accepted_as_it_was_struck_is_closed_with_it(door: Door):
    one, other = socket.socketpair()
    door._accepted.append((one, None))
    door.close()
    assert one.fileno() == -1
    other.close()


def test_what_cannot_be_said_was_not_said():
    one, other = socket.socketpair()
    other.close()
    assert not _say(one, b"word")
    one.close()
