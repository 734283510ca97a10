"""The writer's door: where local readers connect, prove themselves, and get the bells."""

import contextlib
import os
import select
import socket
import struct
from collections.abc import Callable

import zmq

from .descriptors import need
from .errors import PeerDied, QueueClosed, RankRefused
from .liveness import Peer
from .overflow import PayloadSender
from .rendezvous import GO, HELLO_BYTES, REFUSED, WELCOME, Refusal, Rendezvous, Welcome
from .security import SocketFactory, peer_of

_PENDING_MOST = 64


class Door:
    """Lets `rendezvous` be met. `peers` maps a rank to the process that took it."""

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
        self._pending: dict[int, socket.socket] = {}
        self._told: set[int] = set()

    def wait(self, deadline: Callable[[], float | None], vigil_fd: int) -> bool:
        """Serve one round of arrivals; True once every rank is there (`tell_go` is next).

        `deadline()` gives the seconds that may be slept. Raises RankRefused for a wrong rank,
        PeerDied for a reader that went away.
        """
        poller = zmq.Poller()
        for fd in (self._listener.fileno(), vigil_fd, *self._pending):
            poller.register(fd, zmq.POLLIN)
        for peer in self.peers.values():
            poller.register(peer.link.fileno(), zmq.POLLERR)  # hang-up only
            if peer.pidfd >= 0:
                poller.register(peer.pidfd, zmq.POLLIN)
        poller.register(self._payloads.socket, zmq.POLLIN)
        seconds = deadline()
        poller.poll(None if seconds is None else int(max(0.0, seconds) * 1000) + (seconds > 0))
        self._accept()
        for fd in list(self._pending):
            self._hear_hello(fd)
        while (frame := self._payloads.subscription()) is not None:
            self._rendezvous.subscription(frame)
        self._check_peers()
        return not self._rendezvous.missing()

    def close(self) -> None:
        """No further arrivals."""
        for link in self._pending.values():
            link.close()
        self._pending.clear()
        self._listener.close()

    def _accept(self) -> None:
        while len(self._pending) < _PENDING_MOST:
            if not _knocks(self._listener):
                return
            need(len(self._pending) + 2 + self._on_their_way())
            try:
                link, _ = self._listener.accept()
            except BlockingIOError:
                return
            link.setblocking(False)
            if peer_of(link)[1] not in (os.geteuid(), 0):
                link.close()
            else:
                self._pending[link.fileno()] = link

    def _on_their_way(self) -> int:
        """Readers whose payload connection libzmq may accept at any moment."""
        return len(self.peers.keys() & set(self._rendezvous.missing()))

    def _hear_hello(self, fd: int) -> None:
        link = self._pending[fd]
        try:
            message = link.recv(HELLO_BYTES + 1)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        del self._pending[fd]
        verdict = self._rendezvous.hello(message)
        if isinstance(verdict, Refusal):
            self._refuse(link, verdict)
        else:
            self._welcome(link, verdict)

    def _refuse(self, link: socket.socket, refusal: Refusal) -> None:
        with contextlib.suppress(OSError):  # it may have gone away by itself
            link.send(REFUSED + struct.pack(">i", refusal.rank) + refusal.reason.encode())
        link.close()
        if refusal.ours:
            raise RankRefused(refusal.rank, refusal.reason)

    def _welcome(self, link: socket.socket, welcome: Welcome) -> None:
        peer = self.peers[welcome.rank] = Peer(f"reader {welcome.rank}", link)
        self._payloads.expect_reader()
        try:
            socket.send_fds(link, [WELCOME + welcome.nonce], list(self._bells))
        except OSError:
            raise self._death(peer) from None

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
    """A reader's side of the door: says hello at once, takes what it is given later."""

    def __init__(self, path: str, greeting: bytes, sockets: SocketFactory) -> None:
        self.peer = Peer("writer", sockets.connect(path))
        self.welcomed = False
        self.gone = False
        try:
            self.peer.link.send(greeting)
        except OSError:
            self.gone = True  # the answer, if any, says why

    def hear(self) -> tuple[bytes, list[int]] | None:
        """(nonce, descriptors) of a welcome, (b"", []) for go, None if nothing has come.

        Raises RankRefused, or PeerDied if the writer hung up or died.
        """
        link = self.peer.link
        try:
            message, fds, _, _ = socket.recv_fds(link, 512, 2)
        except BlockingIOError:
            if self.peer.is_gone() or self.gone:
                raise self._death() from None
            return None
        except OSError:
            raise self._death() from None
        for fd in fds:
            os.set_inheritable(fd, False)
        if message.startswith(WELCOME):
            self.welcomed = True
            return message[len(WELCOME) :], fds
        if message == GO:
            return b"", []
        if message.startswith(REFUSED):
            (rank,) = struct.unpack_from(">i", message, len(REFUSED))
            raise RankRefused(rank, message[len(REFUSED) + 4 :].decode())
        raise self._death()

    def _death(self) -> PeerDied:
        return PeerDied("writer", self.peer.pid, "the rendezvous", self.peer.signal())


def _knocks(listener: socket.socket) -> bool:
    """Whether somebody waits to be let in."""
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    return bool(poller.poll(0))
