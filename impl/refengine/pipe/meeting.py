"""How the ranks of a pipe find each other and become a ring, all of them or none (SPEC 6).

Every rank but 0 connects to rank 0, and says where it listens for its own successor. Once all
are there, rank 0 tells each where its predecessor listens; each connects to it, and says so; once
all have, rank 0 tells everybody to go. Of two neighbours the one with the higher rank connects.
"""

import os
import select
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

from ..base.cleanup import ReleaseStack
from ..base.clock import Clock
from ..base.liveness import hung_up
from ..base.security import Keys, SocketFactory
from ..errors import BarrierFailed, DeadlinePassed, PeerDied, RankRefused
from .door import Door
from .handshake import CONTROL, Caller
from .knock import knock, read
from .link import Across, Link
from .places import Place

_ADDRESS = struct.Struct(">H62s")
_READY, _GO = b"R", b"G"
_AGAIN = 0.03
"""Seconds until a door that is not open yet is tried again."""
_MEETING = "the meeting of the pipe's ranks"


@dataclass(frozen=True)
class Neighbours:
    """A rank's two links; with one rank alone, they are each other's ends."""

    out: Link
    into: Link

    def close(self) -> None:
        """Hang up on both."""
        self.out.close()
        self.into.close()


@dataclass(frozen=True)
class Party:
    """One rank of a pipe that is to be."""

    host: str
    port: int
    rank: int
    size: int
    keys: Keys
    place: Place
    patience: float
    sockets: SocketFactory
    clock: Clock


def meet(party: Party, timeout: float | None) -> Neighbours:
    """Returns once every rank has both its links.

    BarrierFailed names the ranks that did not come; PeerDied one that came and went; RankRefused
    if this one is not wanted.
    """
    if party.size == 1:
        return _alone(party)
    until = None if timeout is None else party.clock() + timeout
    undo = ReleaseStack()
    try:
        role = _Host if party.rank == 0 else _Guest
        return role(party, timeout, until, undo).meet()
    except BaseException:
        undo.close()
        raise


def _alone(party: Party) -> Neighbours:
    undo = ReleaseStack()
    try:
        one, other = undo.acquire(_close_both, socket.socketpair)
        across = Across(0, os.getpid(), party.place)
        session = Keys.fresh().secret
        return Neighbours(Link(one, across, session), Link(other, across, session))
    except BaseException:
        undo.close()
        raise


def _close_both(pair: tuple[socket.socket, socket.socket]) -> None:
    for end in pair:
        end.close()


class _Meeting:
    """What host and guests have in common."""

    def __init__(
        self, party: Party, timeout: float | None, until: float | None, undo: ReleaseStack
    ) -> None:
        self._party, self._timeout, self._until, self._undo = party, timeout, until, undo
        self._predecessor = (party.rank - 1) % party.size
        self._successor = (party.rank + 1) % party.size

    def _left(self) -> float:
        """Seconds; TimeoutError when there are none."""
        if self._until is None:
            return 3600.0
        left = self._until - self._party.clock()
        if left <= 0:
            raise TimeoutError
        return left

    def _door(self, host: str, port: int, expected: set[tuple[int, int]]) -> Door:
        party = self._party

        def make() -> Door:
            return Door(
                host,
                port,
                party.keys,
                party.size,
                party.place,
                expected,
                patience=party.patience,
                sockets=party.sockets,
                clock=party.clock,
            )

        return self._undo.acquire(Door.drop, make)


class _Host(_Meeting):
    """Rank 0."""

    def meet(self) -> Neighbours:
        """Serve the others until all have said that they are ready."""
        party, last = self._party, self._predecessor
        controls = {(rank, CONTROL) for rank in range(1, party.size)}
        door = self._door(party.host, party.port, controls | {(1, 0), (last, last)})
        try:
            self._serve(door, controls)
            addresses = self._hear(door, _ADDRESS.size)
            for rank in range(2, party.size):
                _tell(door.came[rank, CONTROL], addresses[rank - 1])
            self._serve(door, door.expected)
            self._hear(door, len(_READY))
            for control in controls:
                _tell(door.came[control], _GO)
        except TimeoutError:
            came = {rank for rank, link in door.came if link == CONTROL}
            missing = set(range(1, party.size)) - came or {rank for rank, _ in door.missing}
            raise BarrierFailed(sorted(missing) or [1], self._timeout or 0) from None
        door.close()
        for control in controls:
            door.came[control].close()
        return Neighbours(door.came[1, 0], door.came[last, last])

    def _serve(self, door: Door, wanted: set[tuple[int, int]]) -> None:
        while not wanted <= door.came.keys():
            door.wait(self._left(), *(link.sock.fileno() for link in door.came.values()))
            for link in door.came.values():
                _check(link)

    def _hear(self, door: Door, count: int) -> dict[int, bytes]:
        """What each guest says next."""
        said = dict[int, bytes]()
        for (rank, purpose), link in door.came.items():
            if purpose == CONTROL:
                said[rank] = _read(link, count, self._left)
        return said


class _Guest(_Meeting):
    """Every other rank."""

    def meet(self) -> Neighbours:
        """Connect to rank 0, then to the predecessor; wait for the successor, then for all."""
        party, waiting_for = self._party, "rank 0 to listen"
        try:
            control = self._link(CONTROL, (party.host, party.port), 0)
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

    def _link(self, purpose: int, address: tuple[str, int], rank: int) -> Link:
        """Connect, as often as it takes until somebody listens."""
        party = self._party
        me = Caller(party.rank, party.size, purpose, os.getpid(), party.place)

        def connect() -> Link | str:
            return knock(address, party.keys, me, rank, self._left, party.sockets)

        while True:
            try:
                found = self._undo.acquire(_drop, connect)
            except ConnectionError:
                select.poll().poll(min(_AGAIN, self._left()) * 1000)
                continue
            if isinstance(found, str):
                raise RankRefused(party.rank, found, "pipe")
            return found

    def _open(self, control: Link) -> Door | None:
        """Listen for the successor, unless it is rank 0, and tell rank 0 where."""
        mine, host = None, control.sock.getsockname()[0]
        if self._successor:
            mine = self._door(host, 0, {(self._successor, self._party.rank)})
        _tell(control, _ADDRESS.pack(mine.port if mine else 0, host.encode()))
        return mine

    def _join(self, control: Link) -> Link:
        """The link from the predecessor."""
        party, rank = self._party, self._predecessor
        address = party.host, party.port
        if rank:
            port, host = _ADDRESS.unpack(_read(control, _ADDRESS.size, self._left))
            address = host.rstrip(b"\0").decode(), port
        return self._link(rank, address, rank)

    def _await_successor(self, control: Link, mine: Door | None) -> Link:
        party = self._party
        if mine is None:
            return self._link(party.rank, (party.host, party.port), 0)
        while mine.missing:
            mine.wait(self._left(), control.sock.fileno())
            _check(control)
        return mine.came[self._successor, party.rank]


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
        return read(link.sock, count, left)
    except ConnectionError:
        raise _gone(link) from None
    finally:
        link.sock.setblocking(False)


def _gone(link: Link) -> PeerDied:
    return PeerDied(link.across.role, link.across.pid, _MEETING)
