"""A handshake server alone, with the test's thread and clock: which connections it keeps open."""

import socket
import struct
from collections.abc import Iterator

import pytest

from refengine.base.security import Keys, SocketFactory
from refengine.pipe.handshake import (
    CONTROL,
    PROOF_BYTES,
    WELCOME_BYTES,
    ClientHandshake,
    ClientInfo,
    HandshakeServer,
    _send_whole,
)

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
def server(hour: Hour) -> Iterator[HandshakeServer]:
    made = HandshakeServer(
        "127.0.0.1",
        0,
        KEYS,
        2,
        HERE,
        {(1, CONTROL)},
        handshake_timeout=PATIENCE,
        sockets=SocketFactory(),
        clock=hour,
    )
    yield made
    made.drop()


def client(server: HandshakeServer) -> tuple[socket.socket, ClientHandshake]:
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.settimeout(5.0)
    return sock, ClientHandshake(KEYS, ClientInfo(1, 2, CONTROL, 7, HERE))


def test_a_hello_may_come_in_pieces(server: HandshakeServer):
    sock, handshake = client(server)
    for piece in (handshake.hello[:10], handshake.hello[10:]):
        sock.send(piece)
        server.wait(5.0)
        server.wait(0.0)
        assert len(server._connections) == 1
    assert handshake.proof(sock.recv(WELCOME_BYTES)) is not None
    sock.close()


def test_what_comes_behind_a_hello_is_no_part_of_it(server: HandshakeServer):
    sock, handshake = client(server)
    for piece in (handshake.hello[:10], handshake.hello[10:] + bytes(PROOF_BYTES)):
        sock.send(piece)
        server.wait(5.0)
        server.wait(0.0)
    assert handshake.proof(sock.recv(WELCOME_BYTES)) is not None
    assert sock.recv(1) == b""  # what was taken for its proof proved nothing
    assert not server._connections
    sock.close()


def test_who_hangs_up_amid_its_hello_is_forgotten(server: HandshakeServer):
    sock, handshake = client(server)
    sock.send(handshake.hello[:10])
    server.wait(5.0)
    server.wait(0.0)
    assert len(server._connections) == 1
    sock.close()
    server.wait(5.0)
    assert not server._connections


def test_who_proves_nothing_is_sent_away_at_once(server: HandshakeServer):
    sock, handshake = client(server)
    sock.send(handshake.hello)
    server.wait(5.0)
    server.wait(0.0)
    assert len(sock.recv(WELCOME_BYTES)) == WELCOME_BYTES
    sock.send(bytes(PROOF_BYTES))
    server.wait(5.0)
    assert sock.recv(1) == b""
    assert not server._connections
    assert not server.connected
    sock.close()


def test_who_breaks_off_is_forgotten(server: HandshakeServer):
    sock, _ = client(server)
    server.wait(5.0)
    assert len(server._connections) == 1
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    server.wait(5.0)
    assert not server._connections


def test_patience_ends_to_the_moment(server: HandshakeServer, hour: Hour):
    sock, _ = client(server)
    server.wait(5.0)
    hour.now += PATIENCE - 0.001
    server.wait(0.0)
    assert len(server._connections) == 1
    hour.now += 0.001
    server.wait(None)  # it knows by itself until when
    assert not server._connections
    assert sock.recv(1) == b""
    sock.close()


def test_of_too_many_the_first_must_go_and_there_is_room_for_the_next(server: HandshakeServer):
    socks = [client(server)[0] for _ in range(70)]
    server.wait(5.0)
    assert len(server._connections) == 63
    assert [each.recv(1) for each in socks[:7]] == [b""] * 7
    server.close()
    assert socks[-1].recv(1) == b""
    for each in socks:
        each.close()


def test_whoever_was_accepted_as_it_was_struck_is_closed_with_it(server: HandshakeServer):
    one, other = socket.socketpair()
    server._accepted.append((one, None))
    server.close()
    assert one.fileno() == -1
    other.close()


def test_what_cannot_be_said_was_not_said():
    one, other = socket.socketpair()
    other.close()
    assert not _send_whole(one, b"word")
    one.close()
