"""Ranks that find each other, in threads of one process."""

import contextlib
import socket
import threading
from typing import Any

import pytest

from refengine.base.clock import monotonic
from refengine.base.security import Keys, SocketFactory
from refengine.errors import BarrierFailed, DeadlinePassed, PeerDied, RankRefused
from refengine.pipe import rendezvous
from refengine.pipe.handshake import CONTROL, ClientInfo, HandshakeServer, connect_to_server
from refengine.pipe.link import CPU, Link, Location
from refengine.pipe.rendezvous import Neighbours, RankInfo, connect_ring

from ..roles import until
from ..striking import strikes
from .pairs import HERE, Beside, free_port

KEYS = Keys.fresh()


def rank_info(
    port: int,
    rank: int,
    size: int,
    *,
    keys: Keys = KEYS,
    host: str = "127.0.0.1",
    location: Location = HERE,
    handshake_timeout: float = 5.0,
    sockets: SocketFactory | None = None,
) -> RankInfo:
    sockets = sockets or SocketFactory()
    return RankInfo(host, port, rank, size, keys, location, handshake_timeout, sockets, monotonic)


def met(size: int, host: str = "127.0.0.1") -> list[Neighbours]:
    port = free_port(host)
    ranks = [
        Beside(connect_ring, rank_info(port, rank, size, host=host), 10.0) for rank in range(size)
    ]
    return [each.result() for each in ranks]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_all_become_a_ring_and_nothing_else_stays_open(size: int):
    listeners = threading.active_count()
    found = met(size)
    for rank, each in enumerate(found):
        follows = found[(rank + 1) % size]
        assert each.out.peer.rank == (rank + 1) % size
        assert each.into.peer.rank == (rank - 1) % size
        assert each.out.session == follows.into.session
        each.out.sock.send(bytes([rank]))
        follows.into.sock.settimeout(5.0)
        assert follows.into.sock.recv(9) == bytes([rank])
    assert len({each.out.session for each in found}) == size
    for each in found:
        each.close()
    assert threading.active_count() == listeners


def test_ipv6_will_do():
    with contextlib.suppress(OSError):
        free_port("::1")
        for each in met(3, "::1"):
            assert each.out.sock.family == socket.AF_INET6
            each.close()


def test_absent_ranks_are_named():
    port = free_port()
    one = Beside(connect_ring, rank_info(port, 1, 4), 10.0)
    with pytest.raises(BarrierFailed, match="ranks 2, 3") as caught:
        connect_ring(rank_info(port, 0, 4), 0.3)
    assert caught.value.missing == [2, 3]
    with pytest.raises(PeerDied, match="rank 0"):
        one.result()


def test_nobody_at_the_door_is_waited_for_until_the_deadline():
    with pytest.raises(DeadlinePassed, match=r"waited 0\.1 s for rank 0 to listen"):
        connect_ring(rank_info(free_port(), 1, 2), 0.1)


def test_a_rank_that_comes_and_goes_is_called_dead():
    port = free_port()
    host = Beside(connect_ring, rank_info(port, 0, 3), 10.0)
    with pytest.raises(DeadlinePassed, match="the other ranks"):
        connect_ring(rank_info(port, 1, 3), 0.3)
    with pytest.raises(PeerDied, match="rank 1"):
        host.result()


class Refused(SocketFactory):
    """Notices when nobody listens at an address."""

    def __init__(self, port: int) -> None:
        self.port, self.seen = port, threading.Event()

    def connect_tcp(self, host: str, port: int, timeout: float | None) -> socket.socket:
        try:
            return super().connect_tcp(host, port, timeout)
        except ConnectionRefusedError:
            if port == self.port:
                self.seen.set()
            raise


def test_a_rank_whose_predecessor_is_gone_does_not_go_on_knocking_there():
    """Rank 1 goes after it has said where it listens, and before rank 2 has come there."""
    port, deserted = free_port(), free_port()
    sockets = Refused(deserted)
    host = Beside(connect_ring, rank_info(port, 0, 3), 60.0)
    while not _listens(port):
        assert host.is_alive()
    one = connect_to_server(
        ("127.0.0.1", port), KEYS, ClientInfo(1, 3, CONTROL, 1, HERE), 0, lambda: 10.0, sockets
    )
    assert isinstance(one, Link)
    one.sock.send(rendezvous._ADDRESS.pack(deserted, b"127.0.0.1"))
    two = Beside(connect_ring, rank_info(port, 2, 3, sockets=sockets), 60.0)
    assert sockets.seen.wait(10.0)
    one.close()
    with pytest.raises(PeerDied, match="rank 1"):
        host.result()
    with pytest.raises(PeerDied, match="rank 0"):
        two.result()


def test_a_rank_does_not_go_on_knocking_at_a_rank_0_that_is_gone():
    port = free_port()
    door = {(1, CONTROL)}
    host = HandshakeServer(
        "127.0.0.1",
        port,
        KEYS,
        2,
        HERE,
        door,
        handshake_timeout=5.0,
        sockets=SocketFactory(),
        clock=monotonic,
    )
    one = Beside(connect_ring, rank_info(port, 1, 2), 60.0)
    while host.missing:
        host.wait(10.0)
    host.drop()
    with pytest.raises(PeerDied, match="rank 0"):
        one.result()


@pytest.mark.parametrize(
    ("rank", "size", "location", "why"),
    [
        (1, 3, HERE, "another party already has it"),
        (2, 4, HERE, "there are 4 ranks, here are 3"),
        (7, 3, HERE, "unknown here"),
        (2, 3, Location(bytes(16), CPU, "nccl"), "one end wants the transport 'nccl'"),
    ],
)
def test_who_does_not_belong_is_refused_and_the_others_meet(
    rank: int, size: int, location: Location, why: str, monkeypatch: pytest.MonkeyPatch
):
    servers: list[HandshakeServer] = []

    class Seen(HandshakeServer):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            servers.append(self)

    monkeypatch.setattr(rendezvous, "HandshakeServer", Seen)
    port = free_port()
    ranks = [Beside(connect_ring, rank_info(port, each, 3), 10.0) for each in (0, 1)]
    until(lambda: any((1, CONTROL) in each.connected for each in servers), 10.0)
    with pytest.raises(RankRefused, match=why):
        connect_ring(rank_info(port, rank, size, location=location), 5.0)
    ranks.append(Beside(connect_ring, rank_info(port, 2, 3), 10.0))
    for each in ranks:
        each.result().close()


def test_strangers_learn_nothing_and_delay_nobody():
    port = free_port()
    host = Beside(connect_ring, rank_info(port, 0, 2, handshake_timeout=0.2), 10.0)
    while not _listens(port):
        assert host.is_alive()
    strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(70)]
    strangers[-1].send(b"x" * 1000)
    with pytest.raises(DeadlinePassed):
        connect_ring(rank_info(port, 1, 2, keys=Keys.fresh()), 0.3)
    one = connect_ring(rank_info(port, 1, 2), 5.0)
    host.result().close()
    one.close()
    for each in strangers:
        each.settimeout(5.0)
        with contextlib.suppress(ConnectionResetError):
            assert each.recv(1) == b""
        each.close()


def test_a_stranger_that_says_nothing_is_sent_away():
    port = free_port()
    host = Beside(connect_ring, rank_info(port, 0, 2, handshake_timeout=0.05), 10.0)
    while not _listens(port):
        assert host.is_alive()
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.settimeout(5.0)
        assert stranger.recv(1) == b""
    connect_ring(rank_info(port, 1, 2), 5.0).close()
    host.result().close()


def test_an_exception_at_any_line_leaves_no_socket_open():
    """SPEC R9."""
    for striker in strikes(stride=13):
        port = free_port()
        other = Beside(connect_ring, rank_info(port, 0, 2), 0.2)
        found = striker.during(lambda port=port: connect_ring(rank_info(port, 1, 2), 5.0))
        with contextlib.suppress(PeerDied, BarrierFailed):
            other.result().close()
        for each in found:
            each.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
