"""The ranks of a pipe find each other and become a ring, all of them or none (SPEC 6).

Every rank but 0 connects to rank 0, and reports where it listens for its own successor. Once all
have, rank 0 sends each the address of its predecessor; each connects to it, and reports that;
once all have, rank 0 lets all of them go. Of two neighbours the one with the higher rank connects.
"""

import os
import select
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

from ..base.cleanup import ReleaseStack
from ..base.clock import LONGEST_POLL, Clock
from ..base.liveness import hung_up
from ..base.security import Keys, SocketFactory
from ..errors import BarrierFailed, DeadlinePassed, PeerDied, RankRefused
from .handshake import CONTROL, ClientInfo, HandshakeServer, connect_to_server, read_exactly
from .link import Link, Location, PeerInfo

_ADDRESS = struct.Struct(">H62s")
_READY, _GO = b"R", b"G"
_RETRY_INTERVAL = 0.03
"""Seconds until the next attempt to connect to a server that does not listen yet."""
_MEETING = "the meeting of the pipe's ranks"


@dataclass(frozen=True)
class Neighbours:
    """A rank's two links; with one rank alone, they are each other's ends."""

    out: Link
    into: Link

    def close(self) -> None:
        """Close both links."""
        self.out.close()
        self.into.close()


@dataclass(frozen=True)
class RankInfo:
    """One rank of a pipe that is to be."""

    host: str
    port: int
    rank: int
    size: int
    keys: Keys
    location: Location
    handshake_timeout: float
    sockets: SocketFactory
    clock: Clock


def connect_ring(info: RankInfo, timeout: float | None) -> Neighbours:
    """Return once every rank has both its links.

    BarrierFailed names the ranks that did not come; PeerDied one that came and went; RankRefused
    if this rank is refused.
    """
    if info.size == 1:
        return _alone(info)
    until = None if timeout is None else info.clock() + timeout
    undo = ReleaseStack()
    try:
        role = _Host if info.rank == 0 else _Joiner
        return role(info, timeout, until, undo).connect_ring()
    except BaseException:
        undo.close()
        raise


def _alone(info: RankInfo) -> Neighbours:
    undo = ReleaseStack()
    try:
        one, other = undo.acquire(_close_both, socket.socketpair)
        peer = PeerInfo(0, os.getpid(), info.location)
        session = Keys.fresh().secret
        return Neighbours(Link(one, peer, session), Link(other, peer, session))
    except BaseException:
        undo.close()
        raise


def _close_both(pair: tuple[socket.socket, socket.socket]) -> None:
    for end in pair:
        end.close()


class _Rendezvous:
    """Common part of the host and the other ranks."""

    def __init__(
        self, info: RankInfo, timeout: float | None, until: float | None, undo: ReleaseStack
    ) -> None:
        self._info, self._timeout, self._until, self._undo = info, timeout, until, undo
        self._predecessor = (info.rank - 1) % info.size
        self._successor = (info.rank + 1) % info.size

    def _left(self) -> float:
        """Return the seconds that are left, for one wait; TimeoutError when there are none."""
        if self._until is None:
            return 3600.0
        left = self._until - self._info.clock()
        if left <= 0:
            raise TimeoutError
        return min(left, LONGEST_POLL)

    def _server(self, host: str, port: int, expected: set[tuple[int, int]]) -> HandshakeServer:
        info = self._info

        def make() -> HandshakeServer:
            return HandshakeServer(
                host,
                port,
                info.keys,
                info.size,
                info.location,
                expected,
                handshake_timeout=info.handshake_timeout,
                sockets=info.sockets,
                clock=info.clock,
            )

        return self._undo.acquire(HandshakeServer.drop, make)


class _Host(_Rendezvous):
    """Rank 0."""

    def connect_ring(self) -> Neighbours:
        """Serve the others until all have reported that they are ready."""
        info, last = self._info, self._predecessor
        controls = {(rank, CONTROL) for rank in range(1, info.size)}
        server = self._server(info.host, info.port, controls | {(1, 0), (last, last)})
        try:
            self._serve(server, controls)
            addresses = self._hear(server, _ADDRESS.size)
            for rank in range(2, info.size):
                _tell(server.connected[rank, CONTROL], addresses[rank - 1])
            self._serve(server, server.expected)
            self._hear(server, len(_READY))
            for control in controls:
                _tell(server.connected[control], _GO)
        except TimeoutError:
            connected = {rank for rank, link in server.connected if link == CONTROL}
            missing = set(range(1, info.size)) - connected or {rank for rank, _ in server.missing}
            raise BarrierFailed(sorted(missing) or [1], self._timeout or 0) from None
        server.close()
        for control in controls:
            server.connected[control].close()
        return Neighbours(server.connected[1, 0], server.connected[last, last])

    def _serve(self, server: HandshakeServer, wanted: set[tuple[int, int]]) -> None:
        while not wanted <= server.connected.keys():
            server.wait(self._left(), *(link.sock.fileno() for link in server.connected.values()))
            for link in server.connected.values():
                _check(link)

    def _hear(self, server: HandshakeServer, count: int) -> dict[int, bytes]:
        """Return the next message of each rank."""
        said = dict[int, bytes]()
        for (rank, purpose), link in server.connected.items():
            if purpose == CONTROL:
                said[rank] = _read(link, count, self._left)
        return said


class _Joiner(_Rendezvous):
    """Every other rank."""

    def connect_ring(self) -> Neighbours:
        """Connect to rank 0, then to the predecessor; wait for the successor, then for all."""
        info, waiting_for = self._info, "rank 0 to listen"
        try:
            control = self._link(CONTROL, (info.host, info.port), 0)
            mine = self._open(control)
            waiting_for = "the other ranks"
            into = self._join(control)
            out = self._await_successor(control, mine)
            _tell(control, _READY)
            _read(control, len(_GO), self._left)
        except TimeoutError:
            raise DeadlinePassed(waiting_for, self._timeout or 0) from None
        if mine is not None:
            mine.close()
        control.close()
        return Neighbours(out, into)

    def _link(
        self, purpose: int, address: tuple[str, int], rank: int, control: Link | None = None
    ) -> Link:
        """Connect, as often as it takes until the server listens; PeerDied if `control` ends."""
        info = self._info
        me = ClientInfo(info.rank, info.size, purpose, os.getpid(), info.location)

        def connect() -> Link | str:
            return connect_to_server(address, info.keys, me, rank, self._left, info.sockets)

        while True:
            try:
                found = self._undo.acquire(_drop, connect)
            except ConnectionError:
                if control is not None:  # rank 0 ends it once any rank is gone, this one perhaps
                    _check(control)
                select.poll().poll(min(_RETRY_INTERVAL, self._left()) * 1000)
                continue
            if isinstance(found, str):
                raise RankRefused(info.rank, found, "pipe")
            return found

    def _open(self, control: Link) -> HandshakeServer | None:
        """Listen for the successor, unless it is rank 0, and report the address to rank 0."""
        mine, host = None, control.sock.getsockname()[0]
        if self._successor:
            mine = self._server(host, 0, {(self._successor, self._info.rank)})
        _tell(control, _ADDRESS.pack(mine.port if mine else 0, host.encode()))
        return mine

    def _join(self, control: Link) -> Link:
        """Return the link from the predecessor."""
        info, rank = self._info, self._predecessor
        address = info.host, info.port
        if rank:
            port, host = _ADDRESS.unpack(_read(control, _ADDRESS.size, self._left))
            address = host.rstrip(b"\0").decode(), port
        return self._link(rank, address, rank, control)

    def _await_successor(self, control: Link, mine: HandshakeServer | None) -> Link:
        info = self._info
        if mine is None:
            return self._link(info.rank, (info.host, info.port), 0, control)
        while mine.missing:
            mine.wait(self._left(), control.sock.fileno())
            _check(control)
        return mine.connected[self._successor, info.rank]


def _drop(found: Link | str) -> None:
    if isinstance(found, Link):
        found.close()


def _check(link: Link) -> None:
    if hung_up(link.sock):
        raise _gone(link)


def _tell(link: Link, what: bytes) -> None:
    try:
        link.sock.send(what)
    except OSError:
        raise _gone(link) from None


def _read(link: Link, count: int, left: Callable[[], float]) -> bytes:
    try:
        return read_exactly(link.sock, count, left)
    except ConnectionError:
        raise _gone(link) from None
    finally:
        link.sock.setblocking(False)


def _gone(link: Link) -> PeerDied:
    return PeerDied(link.peer.role, link.peer.pid, _MEETING)
