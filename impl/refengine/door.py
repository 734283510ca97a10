"""The writer's door: where local readers connect, prove themselves, and get the bells."""

import contextlib
import os
import select
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import zmq

from .descriptors import need
from .errors import PeerDied, QueueClosed, RankRefused
from .keeping import keep
from .liveness import Peer
from .overflow import PayloadSender
from .rendezvous import GO, HELLO_BYTES, REFUSED, WELCOME, Refusal, Rendezvous, Welcome
from .security import SocketFactory, peer_of

_PENDING_MOST = 64
_Answer = tuple[bytes, list[tuple[int, int, bytes]], int, object]
"""As `recvmsg` gives it."""


@dataclass
class _Caller:
    """A connection that has no answer yet."""

    link: socket.socket
    said: list[bytes] = field(default_factory=list)


class Door:
    """Lets `rendezvous` be met. `peers` maps a rank to the process that took it.

    What came in is kept until it has been dealt with, and every step may be done again: an
    exception from outside leaves the rest to the next round (SPEC R9).
    """

    def __init__(
        self,
        path: str,
        rendezvous: Rendezvous,
        payloads: PayloadSender,
        bells: tuple[int, int],
        sockets: SocketFactory,
        has_left: Callable[[int], bool],
    ) -> None:
        self._has_left = has_left
        self.peers: dict[int, Peer] = {}
        self._rendezvous, self._payloads, self._bells = rendezvous, payloads, bells
        self._listener = sockets.listen(path)
        self._let_in: deque[tuple[socket.socket, object]] = deque()
        self._pending: dict[int, _Caller] = {}
        self._told: set[int] = set()

    def wait(self, deadline: Callable[[], float | None], vigil_fd: int) -> bool:
        """Serve one round of arrivals; True once every rank is there (`tell_go` is next).

        `deadline()` gives the seconds that may be slept. Raises RankRefused for a wrong rank,
        PeerDied for a reader that went away.
        """
        if self._listener.fileno() < 0:
            return True  # it was closed because they are all there
        poller = zmq.Poller()
        for fd in (self._listener.fileno(), vigil_fd, *self._pending):
            poller.register(fd, zmq.POLLIN)
        for peer in self.peers.values():
            poller.register(peer.link.fileno(), zmq.POLLERR)  # hang-up only
            if peer.pidfd >= 0:
                poller.register(peer.pidfd, zmq.POLLIN)
        poller.register(self._payloads.socket, zmq.POLLIN)
        seconds = 0.0 if self._has_work() else deadline()
        poller.poll(None if seconds is None else int(max(0.0, seconds) * 1000) + (seconds > 0))
        self._accept()
        for fd in list(self._pending):
            self._hear_hello(fd)
        heard = self._payloads.subscriptions()
        while heard:
            self._rendezvous.subscription(heard[0])
            heard.popleft()
        self._check_peers()
        return not self._rendezvous.missing()

    def close(self) -> None:
        """No further arrivals."""
        self._listener.close()
        for link, _ in self._let_in:
            link.close()
        for caller in self._pending.values():
            caller.link.close()
        self._pending.clear()

    def _has_work(self) -> bool:
        """Whether something is left of a round that an exception struck: no poll tells."""
        if self._let_in or any(caller.said for caller in self._pending.values()):
            return True
        return bool(self._payloads.subscriptions())

    def _accept(self) -> None:
        self._sort()
        while len(self._pending) < _PENDING_MOST:
            if not _knocks(self._listener):
                return
            need(len(self._pending) + 2 + self._on_their_way())
            try:
                keep(self._let_in, self._listener.accept)
            except BlockingIOError:
                return
            self._sort()

    def _sort(self) -> None:
        """Who was let in may speak, unless it belongs to another user."""
        while self._let_in:
            link, _ = self._let_in[0]
            if link.fileno() >= 0:
                link.setblocking(False)
                if peer_of(link)[1] in (os.geteuid(), 0):
                    self._pending.setdefault(link.fileno(), _Caller(link))
                else:
                    link.close()
            self._let_in.popleft()

    def _on_their_way(self) -> int:
        """Readers whose payload connection libzmq may accept at any moment."""
        return len(self.peers.keys() & set(self._rendezvous.missing()))

    def _hear_hello(self, fd: int) -> None:
        caller = self._pending[fd]
        if not caller.said:
            try:
                keep(caller.said, caller.link.recv, HELLO_BYTES + 1)
            except BlockingIOError:
                return
            except OSError:
                caller.said.append(b"")
        verdict = self._rendezvous.hello(caller.said[0], fd)
        if isinstance(verdict, Welcome):
            self._welcome(caller.link, verdict)
            del self._pending[fd]
        else:
            self._refuse(caller.link, verdict)
            del self._pending[fd]
            if verdict.ours:
                raise RankRefused(verdict.rank, verdict.reason)

    def _refuse(self, link: socket.socket, refusal: Refusal) -> None:
        with contextlib.suppress(OSError):  # it may have gone away by itself
            link.send(REFUSED + struct.pack(">i", refusal.rank) + refusal.reason.encode())
        link.close()

    def _welcome(self, link: socket.socket, welcome: Welcome) -> None:
        rank = welcome.rank
        if rank not in self.peers:
            self.peers[rank] = Peer(f"reader {rank}", link)
        self._payloads.expect_readers(self._rendezvous.unheard())
        try:
            socket.send_fds(link, [WELCOME + welcome.nonce], list(self._bells))
        except OSError:
            raise self._death(self.peers[rank]) from None

    def _check_peers(self) -> None:
        for rank, peer in self.peers.items():
            if peer.is_gone():
                raise QueueClosed(peer.role) if self._has_left(rank) else self._death(peer)

    def tell_go(self) -> None:
        """Tell every rank that all are there; PeerDied for one that is not any more."""
        for rank, peer in self.peers.items():
            if rank not in self._told:
                try:
                    peer.link.send(GO)
                except OSError:
                    raise self._death(peer) from None
                self._told.add(rank)

    def _death(self, peer: Peer) -> PeerDied:
        return PeerDied(peer.role, peer.pid, "the rendezvous", peer.signal())


class Knock:
    """A reader's side of the door: says hello, and keeps what it is answered.

    An answer may come twice, if an exception struck the writer right after it (SPEC R9).
    """

    def __init__(self, path: str, greeting: bytes, sockets: SocketFactory) -> None:
        self._greeting = greeting
        self._greeted: list[int] = []
        self._answers: list[_Answer] = []
        self.peer = Peer("writer", sockets.connect(path))

    def say_hello(self) -> None:
        """Once. It has happened, or it has not: nothing is done after it."""
        if not self._greeted:
            try:
                keep(self._greeted, self.peer.link.send, self._greeting)
            except OSError:
                self._greeted.append(0)  # the answer, if any, says why

    @property
    def welcomed(self) -> bool:
        """Whether the writer knows us."""
        return any(answer[0].startswith(WELCOME) for answer in self._answers)

    @property
    def go(self) -> bool:
        """Whether everybody is there."""
        return any(answer[0] == GO for answer in self._answers)

    def welcome(self) -> tuple[bytes, list[int]]:
        """The nonce and the descriptors of the first welcome."""
        answer = next(a for a in self._answers if a[0].startswith(WELCOME))
        return answer[0][len(WELCOME) :], _descriptors(answer)

    def hear(self) -> bool:
        """Take one more answer in; False if none has come.

        Raises RankRefused, or PeerDied if the writer hung up or died.
        """
        room = socket.CMSG_SPACE(2 * struct.calcsize("i"))
        try:
            keep(self._answers, self.peer.link.recvmsg, 512, room, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            if self.peer.is_gone() or self._greeted == [0]:
                raise self._death() from None
            return False
        except OSError:
            raise self._death() from None
        message = self._answers[-1][0]
        if message.startswith(REFUSED):
            (rank,) = struct.unpack_from(">i", message, len(REFUSED))
            raise RankRefused(rank, message[len(REFUSED) + 4 :].decode())
        if message != GO and not message.startswith(WELCOME):
            raise self._death()
        return True

    def close(self) -> None:
        """Hang up, and close every descriptor that came."""
        self.peer.close()
        while self._answers:
            for fd in _descriptors(self._answers.pop()):
                os.close(fd)

    def _death(self) -> PeerDied:
        return PeerDied("writer", self.peer.pid, "the rendezvous", self.peer.signal())


def _descriptors(answer: _Answer) -> list[int]:
    return [fd for _, _, data in answer[1] for (fd,) in struct.iter_unpack("i", data)]


def _knocks(listener: socket.socket) -> bool:
    """Whether somebody waits to be let in."""
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    return bool(poller.poll(0))
