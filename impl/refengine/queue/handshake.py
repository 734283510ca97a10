"""The handshake of a queue with its local readers: address, states, server and client (SPEC 3).

A `Handle` is the queue's address. `HandshakeState` decides who has arrived, without any I/O
(SPEC Q10, Q17): a reader is absent → welcomed (its hello was good) → subscribed (its nonce came up
the overflow socket); ready when all are subscribed, and a departure never counts as an arrival.
`HandshakeServer` is the writer's socket, where local readers connect, prove that they know the key,
and get the eventfds for wake-ups; `HandshakeClient` is a reader's side.
"""

import contextlib
import os
import secrets
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import zmq

from ..base.cleanup import append_atomically
from ..base.clock import poll_milliseconds
from ..base.fds import ensure_fds_available
from ..base.liveness import Peer
from ..base.security import Keys, SocketFactory, peer_of
from ..errors import PeerDied, QueueClosed, RankRefused
from ..ring.ring import RingHandle
from .overflow import PayloadSender


@dataclass(frozen=True)
class Handle:
    """Address of a queue, from which a reader is made: picklable, its key in no repr (SPEC 3, S3).

    `door` (the handshake's socket) and `overflow` are paths in a 0700 directory.
    """

    n_reader: int
    local_reader_ranks: tuple[int, ...]
    ring: RingHandle | None
    """None, and `door` and `overflow` empty, if there is no local reader."""
    door: str
    overflow: str
    keys: Keys
    remote: str = ""
    """tcp://host:port that remote readers connect to; empty if there is none."""
    peer_timeout: float = 10.0

    @property
    def remote_reader_ranks(self) -> tuple[int, ...]:
        """The ranks that are not local."""
        return tuple(r for r in range(self.n_reader) if r not in self.local_reader_ranks)


_HELLO = struct.Struct(">4sI32s")
_MAGIC = b"RFE1"
HELLO_BYTES = _HELLO.size
WELCOME, REFUSED, GO = b"WELCOME ", b"REFUSED ", b"GO"
NONCE_BYTES = 16


def hello_message(rank: int, keys: Keys) -> bytes:
    """Return a reader's first message."""
    return _HELLO.pack(_MAGIC, rank, keys.secret)


@dataclass(frozen=True)
class Welcome:
    """Verdict on a good hello: the rank, and the nonce that it must subscribe to."""

    rank: int
    nonce: bytes


@dataclass(frozen=True)
class Refusal:
    """Verdict on a bad hello. `ours`: the reader knows the key, and the writer gets an error."""

    rank: int
    reason: str
    ours: bool


class HandshakeState:
    """Collects hellos and subscriptions for the given ranks."""

    def __init__(self, ranks: Collection[int], keys: Keys) -> None:
        self._ranks, self._keys = set(ranks), keys
        self._welcomes: dict[int, Welcome] = {}
        self._subscribed: set[int] = set()

    def hello(self, message: bytes, caller: int) -> Welcome | Refusal:
        """Return the verdict on the first message of connection `caller`; always the same one."""
        if caller in self._welcomes:
            return self._welcomes[caller]
        if len(message) != _HELLO.size:
            return Refusal(-1, "that is no hello", False)
        magic, rank, secret = _HELLO.unpack(message)
        if not self._keys.match(secret) or magic != _MAGIC:
            return Refusal(-1, "wrong key", False)
        if rank not in self._ranks:
            return Refusal(rank, f"unknown; the ranks are {sorted(self._ranks)}", True)
        if any(given.rank == rank for given in self._welcomes.values()):
            return Refusal(rank, "another reader already has it", True)
        self._welcomes[caller] = Welcome(rank, secrets.token_bytes(NONCE_BYTES))
        return self._welcomes[caller]

    def subscription(self, frame: bytes) -> None:
        """Take a frame from the overflow socket: 1 + topic is an arrival, all else is not."""
        if frame[:1] == b"\1":
            nonce = frame[1:]
            self._subscribed |= {w.rank for w in self._welcomes.values() if w.nonce == nonce}

    def unheard(self) -> int:
        """Return the number of ranks that have not sent a good hello."""
        return len(self._ranks) - len(self._welcomes)

    def missing(self) -> list[int]:
        """Return the ranks that have not fully arrived."""
        return sorted(self._ranks - self._subscribed)


_PENDING_MOST = 64
_Answer = tuple[bytes, list[tuple[int, int, bytes]], int, object]
"""Result of `recvmsg`."""


@dataclass
class _Connection:
    """A connection that has no answer yet."""

    link: socket.socket
    said: list[bytes] = field(default_factory=list)


class HandshakeServer:
    """The writer's side of the handshake. `peers` maps a rank to the process that took it.

    A message is kept until it has been handled, and every step may be repeated: an exception from
    outside leaves the rest to the next round (SPEC R9).
    """

    def __init__(
        self,
        path: str,
        state: HandshakeState,
        payloads: PayloadSender,
        wakeups: tuple[int, int],
        sockets: SocketFactory,
        has_left: Callable[[int], bool],
    ) -> None:
        self._has_left = has_left
        self.peers: dict[int, Peer] = {}
        self._state, self._payloads, self._wakeups = state, payloads, wakeups
        self._listener = sockets.listen(path)
        self._let_in: deque[tuple[socket.socket, object]] = deque()
        self._pending: dict[int, _Connection] = {}
        self._told: set[int] = set()

    def wait(self, deadline: Callable[[], float | None], waiter_fd: int) -> bool:
        """Serve one round of arrivals; return whether every rank is there (`send_go` is next).

        `deadline()` gives the seconds that may be slept. Raises RankRefused for a wrong rank,
        PeerDied for a reader that went away.
        """
        if self._listener.fileno() < 0:
            return True  # it was closed because they are all there
        poller = zmq.Poller()
        for fd in (self._listener.fileno(), waiter_fd, *self._pending):
            poller.register(fd, zmq.POLLIN)
        for peer in self.peers.values():
            poller.register(peer.link.fileno(), zmq.POLLERR)  # hang-up only
            if peer.pidfd >= 0:
                poller.register(peer.pidfd, zmq.POLLIN)
        poller.register(self._payloads.socket, zmq.POLLIN)
        seconds = 0.0 if self._has_work() else deadline()
        poller.poll(None if seconds is None else int(poll_milliseconds(seconds)) + (seconds > 0))
        self._accept()
        for fd in list(self._pending):
            self._hear_hello(fd)
        heard = self._payloads.subscriptions()
        while heard:
            self._state.subscription(heard[0])
            heard.popleft()
        self._check_peers()
        return not self._state.missing()

    def close(self) -> None:
        """Accept no further connections."""
        self._listener.close()
        for link, _ in self._let_in:
            link.close()
        for caller in self._pending.values():
            caller.link.close()
        self._pending.clear()

    def _has_work(self) -> bool:
        """Return whether an interrupted round left work, which no poll would show."""
        if self._let_in or any(caller.said for caller in self._pending.values()):
            return True
        return bool(self._payloads.subscriptions())

    def _accept(self) -> None:
        self._sort()
        while len(self._pending) < _PENDING_MOST:
            if not _has_caller(self._listener):
                return
            ensure_fds_available(len(self._pending) + 2 + self._on_their_way())
            try:
                append_atomically(self._let_in, self._listener.accept)
            except BlockingIOError:
                return
            self._sort()

    def _sort(self) -> None:
        """Hear the accepted connections from now on, but those of other users."""
        while self._let_in:
            link, _ = self._let_in[0]
            if link.fileno() >= 0:
                link.setblocking(False)
                if peer_of(link)[1] in (os.geteuid(), 0):
                    self._pending.setdefault(link.fileno(), _Connection(link))
                else:
                    link.close()
            self._let_in.popleft()

    def _on_their_way(self) -> int:
        """Return the number of readers whose payload connection libzmq may accept at any moment."""
        return len(self.peers.keys() & set(self._state.missing()))

    def _hear_hello(self, fd: int) -> None:
        caller = self._pending[fd]
        if not caller.said:
            try:
                append_atomically(caller.said, caller.link.recv, HELLO_BYTES + 1)
            except BlockingIOError:
                return
            except OSError:
                caller.said.append(b"")
        verdict = self._state.hello(caller.said[0], fd)
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
        self._payloads.expect_readers(self._state.unheard())
        try:
            socket.send_fds(link, [WELCOME + welcome.nonce], list(self._wakeups))
        except OSError:
            raise self._death(self.peers[rank]) from None

    def _check_peers(self) -> None:
        for rank, peer in self.peers.items():
            if peer.is_gone():
                raise QueueClosed(peer.role) if self._has_left(rank) else self._death(peer)

    def send_go(self) -> None:
        """Send the go to every rank; raise PeerDied for one that has ended."""
        for rank, peer in self.peers.items():
            if rank not in self._told:
                try:
                    peer.link.send(GO)
                except OSError:
                    raise self._death(peer) from None
                self._told.add(rank)

    def _death(self, peer: Peer) -> PeerDied:
        return PeerDied(peer.role, peer.pid, "the rendezvous", peer.signal())


class HandshakeClient:
    """A reader's side of the handshake: sends its hello, and keeps the answers.

    An answer may come twice, if an exception struck the writer right after it (SPEC R9).
    """

    def __init__(self, path: str, greeting: bytes, sockets: SocketFactory) -> None:
        self._greeting = greeting
        self._greeted: list[int] = []
        self._answers: list[_Answer] = []
        self.peer = Peer("writer", sockets.connect(path))

    def say_hello(self) -> None:
        """Send the hello, once. Nothing is done after it: it was sent, or it was not."""
        if not self._greeted:
            try:
                append_atomically(self._greeted, self.peer.link.send, self._greeting)
            except OSError:
                self._greeted.append(0)  # the answer, if any, says why

    @property
    def welcomed(self) -> bool:
        """True once the writer has welcomed this reader."""
        return any(answer[0].startswith(WELCOME) for answer in self._answers)

    @property
    def go(self) -> bool:
        """True once every reader has arrived."""
        return any(answer[0] == GO for answer in self._answers)

    def welcome(self) -> tuple[bytes, list[int]]:
        """Return the nonce and the descriptors of the first welcome."""
        answer = next(a for a in self._answers if a[0].startswith(WELCOME))
        return answer[0][len(WELCOME) :], _descriptors(answer)

    def hear(self) -> bool:
        """Receive one more answer; return False if none has come.

        Raises RankRefused, or PeerDied if the writer hung up or died.
        """
        room = socket.CMSG_SPACE(2 * struct.calcsize("i"))
        try:
            append_atomically(
                self._answers, self.peer.link.recvmsg, 512, room, socket.MSG_CMSG_CLOEXEC
            )
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


def _has_caller(listener: socket.socket) -> bool:
    """Return whether a connection waits to be accepted."""
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    return bool(poller.poll(0))
