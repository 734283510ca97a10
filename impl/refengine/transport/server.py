"""The listening end: one TCP port, one session with each rank that proves to know the key."""

import secrets
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import zmq

from ..base.cleanup import ReleaseStack
from ..base.clock import Clock, monotonic
from ..base.security import Keys, SocketFactory, destroy
from . import protocol
from .events import Gone, ServerListener
from .io_thread import A_TURN, RETURN_WITHIN, IoThread, frames_of, keepalive_of
from .keepalive import TcpKeepalive, await_given_up
from .session import Body, Session


@dataclass
class _Peer:
    """A rank as the server knows it. Only with a keepalive can anything be sent to it.

    After a break it keeps its identity: frames that it had sent, a goodbye perhaps, may still be
    with libzmq's thread.
    """

    rank: int
    session: Session = field(default_factory=Session)
    token: bytes = b""
    pid: int = 0
    attempt: int = 0
    """Number of the client's connection that is used, among those that it has tried."""
    identity: bytes | None = None
    keepalive: TcpKeepalive | None = None
    broken: TcpKeepalive | None = None
    """Keepalive of the connection that broke last; libzmq may not have given it up yet."""
    broken_at: float | None = None
    forgotten_at: float | None = None
    gone: Gone | None = None
    unheard: bool = False
    """Whether it was told goodbye and has not answered."""

    def is_untold(self) -> bool:
        """Return whether it lacks a message, or cannot be told goodbye before it is back."""
        behind = self.broken_at is not None or not self.session.handed_over
        return self.gone is None and behind

    def unplug(self) -> None:
        if self.keepalive is not None:
            self.keepalive.close()
            self.keepalive = None

    def notice_break(self) -> bool:
        """Unplug its connection if that has broken; return whether it has, just now."""
        if self.keepalive is None or not self.keepalive.hung_up():
            return False
        self.broken = self.keepalive
        self.unplug()
        return True

    def end(self) -> TcpKeepalive | None:
        """End its connection; return the one that libzmq may not have given up yet."""
        if self.keepalive is None:
            return self.broken
        ended, self.keepalive = self.keepalive, None
        ended.end()
        return ended


class Server(IoThread):
    """Listens at exactly `host`. A rank that was cut off is waited for, for `peer_timeout` seconds.

    Nothing is sent to, or taken from, a party that has not shown the key over an encrypted
    connection (SPEC S3). `port` 0 takes a free one, which `address` has.

    With `unsaid` the sessions are tentative: until `settle`, `take_back` withdraws this server. A
    rank that withdraws itself before it has confirmed anything is forgotten, `unsaid` is called,
    and the next party that comes as this rank gets all that was posted to it. After `settle` it
    has to come within `peer_timeout`, else the rank has left.
    """

    def __init__(
        self,
        host: str,
        port: int,
        ranks: Collection[int],
        keys: Keys,
        listener: ServerListener,
        *,
        sockets: SocketFactory,
        clock: Clock = monotonic,
        peer_timeout: float = 10.0,
        unsaid: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(clock, peer_timeout)
        self._keys, self._listener, self._unsaid = keys, listener, unsaid
        self._token = secrets.token_bytes(protocol.TOKEN_BYTES)
        self._settles = unsaid is None
        self._broadcasts: deque[tuple[int, Body]] = deque()
        self._claims: deque[tuple[bytes, bytes, zmq.Frame]] = deque()
        self._peers = {rank: _Peer(rank, Session(settled=self._settles)) for rank in ranks}
        undo = ReleaseStack()
        try:
            self._context = undo.acquire(destroy, sockets.context)
            self._socket, self.address = sockets.server(
                self._context, host, port, keys, peer_timeout
            )
            self.start()
        except BaseException:
            self._undo_construction(undo)
            raise

    def broadcast(self, number: int, body: Body) -> None:
        """Post the `number`-th message of every session; idempotent (SPEC R9)."""
        self._broadcasts.append((number, body))
        self._nudge()

    def settle(self) -> None:
        """Make the sessions final; from now on received messages are confirmed."""
        self._settles = True
        self._nudge()

    def _turn(self) -> bool:
        closing = self._close_by is not None  # before the posts are taken: none comes after it
        for frames in islice(iter(lambda: frames_of(self._socket), None), A_TURN):
            self._hear(*frames)
        while self._claims:
            self._greet(*self._claims.popleft(), patient=False)
        for _ in range(len(self._posts)):
            rank, body = self._posts.popleft()
            if self._peers[rank].gone is None:
                self._peers[rank].session.post(body)
        for _ in range(len(self._broadcasts)):
            number, body = self._broadcasts.popleft()
            for peer in self._peers.values():
                if peer.gone is None and peer.session.posted == number:
                    peer.session.post(body)
        now = self._clock()
        for peer in self._peers.values():
            peer.session.settled = self._settles
            if peer.gone is None:
                self._check(peer, now)
                self._send(peer)
        if not closing:
            return False
        if any(peer.is_untold() for peer in self._peers.values()) and not self._is_overdue():
            return False
        for peer in self._peers.values():
            peer.unheard = self._put(peer, self._goodbye(peer.session.posted))
        return True

    def _is_unheard(self) -> bool:
        for sender, *frames in islice(iter(lambda: frames_of(self._socket), None), A_TURN):
            peer = self._at(sender.bytes)
            if peer is None or not frames or len(frames[0]) == 0:
                continue
            kind = frames[0].bytes[0]
            if kind == protocol.HEARD:
                peer.unheard = False
            elif kind in (protocol.BYE, protocol.UNSAID):
                self._put(peer, bytes([protocol.HEARD]))
        for peer in self._peers.values():
            peer.notice_break()
        return any(p.unheard and p.keepalive is not None for p in self._peers.values())

    # -- what comes in ----------------------------------------------------------------------

    def _hear(self, sender: "zmq.Frame", *frames: "zmq.Frame") -> None:
        if not frames or len(frames[0]) == 0:
            return
        identity, head = sender.bytes, frames[0].bytes
        if head[0] == protocol.HELLO:
            self._greet(identity, head, frames[0])
            return
        peer = self._at(identity)
        if peer is not None:
            self._listen(peer, head, frames[1:])

    def _at(self, identity: bytes) -> _Peer | None:
        return next((f for f in self._peers.values() if f.identity == identity), None)

    def _greet(
        self, identity: bytes, head: bytes, frame: "zmq.Frame", *, patient: bool = True
    ) -> None:
        """Judge a hello. With `patient`, a claim of a taken rank is judged again after all others.

        The last frame of the party before may stand behind this hello, for connections take turns.
        """
        hello = protocol.Hello.unpack(head)
        if hello is None or not self._keys.match(hello.secret):
            return  # a stranger is not worth an answer
        peer = self._peers.get(hello.rank)
        if peer is None:
            self._refuse(identity, hello, f"unknown; the ranks are {sorted(self._peers)}")
        elif peer.gone is not None:
            self._answer(identity, bytes([protocol.DROPPED]))
        elif peer.token == hello.token and hello.attempt < peer.attempt:
            return  # the client has given that connection up for the one that is used
        elif peer.token not in (b"", hello.token) and not self._is_free(peer):
            if patient:
                self._claims.append((identity, head, frame))
            else:
                self._refuse(identity, hello, "another party already has it")
        elif not peer.session.resume(hello.received):
            self._refuse(identity, hello, f"it claims to have had {hello.received} messages")
        else:
            self._plug(peer, identity, hello, keepalive_of(frame, self.address))

    def _is_free(self, peer: _Peer) -> bool:
        """Return whether the rank's party has hung up, and is forgotten."""
        return (peer.keepalive is None or peer.keepalive.hung_up()) and self._forget(peer)

    def _plug(
        self, peer: _Peer, identity: bytes, hello: protocol.Hello, keepalive: TcpKeepalive | None
    ) -> None:
        if keepalive is None and not peer.token and self._unsaid is not None:
            return  # it has gone away again
        first, peer.token, peer.pid = not peer.token, hello.token, hello.pid
        peer.attempt = hello.attempt
        peer.forgotten_at = None
        if peer.notice_break():  # the hello came before anybody had looked
            self._listener.broken(peer.rank)
        peer.unplug()
        peer.broken_at = self._clock() if keepalive is None else None
        if keepalive is not None:
            peer.identity, peer.keepalive = identity, keepalive
            self._answer(identity, protocol.welcome(peer.session.had, self._pid, self._token))
        if first:
            self._listener.arrived(peer.rank)
        elif keepalive is not None:
            self._listener.back(peer.rank)

    def _refuse(self, identity: bytes, hello: protocol.Hello, reason: str) -> None:
        self._answer(identity, protocol.refusal(hello.rank, reason))
        self._listener.refused(hello.rank, reason)

    def _listen(self, peer: _Peer, head: bytes, bodies: "tuple[zmq.Frame, ...]") -> None:
        kind, session = head[0], peer.session
        if peer.gone is not None:
            return
        if kind == protocol.DATA and bodies:
            if session.take(protocol.number_of(head)):
                self._listener.message(peer.rank, protocol.whole([body.buffer for body in bodies]))
        elif kind == protocol.RECEIVED:
            session.confirm(protocol.number_of(head))
        elif kind == protocol.BYE:
            lost = protocol.number_of(head) - session.received
            self._put(peer, bytes([protocol.HEARD]))
            self._lose(peer, Gone("closed", lost=lost, pid=peer.pid))
        elif kind == protocol.UNSAID:
            self._put(peer, bytes([protocol.HEARD]))
            if not self._forget(peer):
                self._lose(peer, Gone("closed", pid=peer.pid))

    # -- signs of life ----------------------------------------------------------------------

    def _check(self, peer: _Peer, now: float) -> None:
        if peer.keepalive is not None:
            if peer.notice_break():
                peer.broken_at = now
                self._listener.broken(peer.rank)
            elif peer.keepalive.quiet() >= self._peer_timeout:
                self._put(peer, bytes([protocol.DROPPED]))
                self._lose(peer, Gone("silent", self._peer_timeout, pid=peer.pid))
        elif peer.broken_at is not None and now - peer.broken_at >= RETURN_WITHIN:
            self._lose(peer, Gone("died", RETURN_WITHIN, pid=peer.pid))
        elif self._settles and now - (peer.forgotten_at or now) >= self._peer_timeout:
            self._lose(peer, Gone("closed", pid=peer.pid))

    def _forget(self, peer: _Peer) -> bool:
        """Forget that the party ever came; return False if it has confirmed something."""
        if self._unsaid is None or not peer.session.start_over():
            return False
        peer.unplug()
        peer.token, peer.identity, peer.broken_at = b"", None, None
        peer.forgotten_at = self._clock()
        self._unsaid(peer.rank)
        return True

    def _lose(self, peer: _Peer, how: Gone) -> None:
        peer.gone, peer.identity = how, None
        peer.unplug()
        peer.session = Session()  # drops the messages kept for it
        self._listener.gone(peer.rank, how)

    # -- what goes out ----------------------------------------------------------------------

    def _send(self, peer: _Peer) -> None:
        if peer.keepalive is None:
            return
        for number, body in peer.session.due():
            if not self._put(peer, protocol.numbered(protocol.DATA, number), body):
                return
        receipt = peer.session.receipt()
        if receipt is not None:
            self._put(peer, protocol.numbered(protocol.RECEIVED, receipt))

    def _put(self, peer: _Peer, *frames: bytes | bytearray) -> bool:
        if peer.keepalive is None or peer.identity is None:
            return False
        return self._answer(peer.identity, *frames)

    def _answer(self, identity: bytes, *frames: bytes | bytearray) -> bool:
        """Send; return False if the connection is gone: its keepalive or a new hello shows it."""
        try:
            self._socket.send_multipart([identity, *frames], zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def _has_posts(self) -> bool:
        return bool(self._posts or self._broadcasts)

    def _sockets(self) -> list[Any]:
        return [self._socket]

    def _keepalives(self) -> list[TcpKeepalive]:
        return [peer.keepalive for peer in self._peers.values() if peer.keepalive is not None]

    def _tear_down(self) -> None:
        await_given_up(peer.end() for peer in self._peers.values())
        self._socket.close(linger=0)
        self._context.term()
