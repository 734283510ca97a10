"""The connecting end: one session with a server, connected again after each break (SPEC Q18)."""

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import zmq

from ..base.cleanup import ReleaseStack
from ..base.clock import Clock, monotonic
from ..base.security import Keys, SocketFactory, destroy
from . import protocol
from .events import Gone, Listener
from .io_thread import A_TURN, RETURN_WITHIN, IoThread, frames_of, keepalive_of
from .keepalive import TcpKeepalive, await_given_up
from .session import Session

_ANSWERED = 1.0  # seconds; with them, a second hello is still in time


@dataclass
class _Attempt:
    """A connection that has said hello and waits for its welcome."""

    socket: Any
    began: float
    told: int
    """Number of messages that its hello says were received."""
    again: bool = False
    """Whether the one before it had no answer either."""

    def patience(self, peer_timeout: float) -> float:
        """Return the seconds after which no answer is expected.

        Few at first: a break may have taken the answer with it, and the server waits for another
        hello no longer than RETURN_WITHIN. More later, for an answer that takes that long.
        """
        return max(_ANSWERED, peer_timeout / 5) if self.again else _ANSWERED


class Client(IoThread):
    """Rank `rank`'s session with the server at `address`; to its listener the server is rank 0.

    A connection that stays quiet for half of `peer_timeout` is not trusted any more: another one is
    tried beside it, since TCP itself waits twice as long as a cut before it sends again. Once its
    hello may have reached the server, the new one must do: the server speaks only to the newest.

    The server need not listen yet. With `patience` it must welcome this client within that many
    seconds. Unless the client `starts` at once, it says hello after `start`.

    With `unsaid` the session is tentative: until `settle`, `take_back` withdraws this client. If
    the server withdraws before it has confirmed anything, `unsaid` is called, and the next server
    there gets all that was posted.
    """

    def __init__(
        self,
        address: str,
        rank: int,
        keys: Keys,
        listener: Listener,
        *,
        sockets: SocketFactory,
        clock: Clock = monotonic,
        peer_timeout: float = 10.0,
        patience: float | None = None,
        starts: bool = True,
        unsaid: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(clock, peer_timeout)
        self._listener, self._unsaid = listener, unsaid
        self._address, self._rank, self._keys, self._sockets_from = address, rank, keys, sockets
        self._token = secrets.token_bytes(protocol.TOKEN_BYTES)
        self._session = Session(settled=unsaid is None)
        self._settle_at: float | None = None
        self._server_pid = 0
        self._server_token = b""
        self._ended = False
        self._current: Any = None
        self._keepalive: TcpKeepalive | None = None
        """Of the connection that is used; None once it has broken."""
        self._connection: TcpKeepalive | None = None
        """The same, until its socket is closed."""
        self._attempt: _Attempt | None = None
        self._attempts = 0
        self._broken_at: float | None = None
        self._unheard: list[Any] = []  # sockets whose far end may not have heard the goodbye
        self._patience = patience or 0.0
        self._welcome_by = None if patience is None else clock() + patience
        undo = ReleaseStack()
        try:
            self._context = undo.acquire(destroy, sockets.context)
            if starts:
                self.start()
        except BaseException:
            self._undo_construction(undo)
            raise

    def settle(self, within: float = 0.0) -> None:
        """Make the session final, from now on or `within` seconds."""
        self._settle_at = self._clock() + within
        self._nudge()

    def _turn(self) -> bool:
        closing = self._close_by is not None  # before the posts are taken: none comes after it
        now = self._clock()
        if self._settle_at is not None and now >= self._settle_at and not self._unsays:
            self._session.settled = True
        if self._keepalive is None and self._attempt is None and not self._ended:
            self._begin(now)
        for socket in self._sockets():
            for head, frames in islice(_heard(socket), A_TURN):
                self._hear(socket, head, frames)
                if self._ended or socket.closed:
                    break
        for _ in range(len(self._posts)):
            self._session.post(self._posts.popleft()[1])
        if not self._ended:
            self._check(self._clock())
            self._send()
        if not closing:
            return False
        # A broken connection is waited for, at most RETURN_WITHIN: no goodbye leaves without it.
        told = self._session.handed_over and self._broken_at is None
        if not (self._ended or told or self._is_overdue()):
            return False
        goodbye = self._goodbye(self._session.posted)
        if self._put(goodbye) and not self._ended:
            self._unheard.append(self._current)
        if self._attempt is not None and (self._unsays or self._server_pid):
            # Its hello may have got there, and then the server listens to nothing else.
            self._attempt.socket.send(goodbye, zmq.NOBLOCK)
            self._unheard.append(self._attempt.socket)
        return True

    def _is_unheard(self) -> bool:
        for socket in self._sockets():
            for head, _ in islice(_heard(socket), A_TURN):
                if head[0] == protocol.HEARD and socket in self._unheard:
                    self._unheard.remove(socket)
                elif head[0] in (protocol.BYE, protocol.UNSAID):
                    self._put(bytes([protocol.HEARD]))
        if self._keepalive is not None and self._keepalive.hung_up():
            self._keepalive.close()
            self._keepalive = None
        if self._keepalive is None and self._current in self._unheard:
            self._unheard.remove(self._current)
        return bool(self._unheard)

    # -- connections ------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        """Say hello on a new connection."""
        again = self._attempt is not None
        self._abandon_attempt()
        socket = self._sockets_from.client(
            self._context, self._address, self._keys, self._peer_timeout
        )
        self._attempts += 1
        told = self._session.had
        hello = protocol.Hello(
            self._rank, self._keys.secret, self._token, told, os.getpid(), self._attempts
        )
        socket.send(hello.pack(), zmq.NOBLOCK)
        self._attempt = _Attempt(socket, now, told, again)

    def _abandon_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.socket.close(linger=0)
            self._attempt = None

    def _adopt(self, head: bytes, frame: "zmq.Frame") -> None:
        """Use the attempted connection, which was welcomed, for the session from now on."""
        received, pid, token = protocol.welcomed(head)
        keepalive = keepalive_of(frame, self._address)
        if self._attempt is None or keepalive is None or not self._is_ours(token):
            return
        if not self._session.resume(received, self._attempt.told):
            return
        first, self._server_pid, self._server_token = self._server_pid == 0, pid, token
        self._unplug()
        self._current, self._attempt = self._attempt.socket, None
        self._keepalive = self._connection = keepalive
        self._broken_at = self._welcome_by = None
        if first:
            self._listener.arrived(0)

    def _is_ours(self, token: bytes) -> bool:
        """Return whether the server is the known one, or replaces one that confirmed nothing."""
        if self._server_token in (b"", token):
            return True
        return self._unsaid is not None and self._session.start_over()

    def _start_over(self) -> bool:
        """Forget the server, since another may come; return False if it has confirmed something."""
        if self._unsaid is None or not self._session.start_over():
            return False
        self._unplug()
        self._abandon_attempt()
        self._server_pid, self._server_token, self._broken_at = 0, b"", None
        self._unsaid(0)
        self._nudge()
        return True

    def _unplug(self) -> None:
        if self._keepalive is not None:
            self._keepalive.end()
            self._keepalive = None
        if self._current is not None:
            await_given_up([self._connection])
            self._current.close(linger=0)
            self._current = self._connection = None

    def _check(self, now: float) -> None:
        if self._keepalive is not None:
            quiet = self._keepalive.quiet()
            if self._keepalive.hung_up():
                # The socket stays: what had come in whole before the break, a goodbye perhaps,
                # may still be with libzmq's thread.
                self._keepalive.close()
                self._keepalive, self._broken_at = None, now
            elif quiet >= self._peer_timeout:
                self._end(Gone("silent", self._peer_timeout, pid=self._server_pid))
            elif quiet >= self._peer_timeout / 2 and self._attempt is None:
                self._begin(now)
        if self._ended:
            return
        if self._broken_at is not None and now - self._broken_at >= RETURN_WITHIN:
            self._end(Gone("died", RETURN_WITHIN, pid=self._server_pid))
        elif self._welcome_by is not None and now >= self._welcome_by:
            self._end(Gone("silent", self._patience))
        elif self._attempt is not None and (
            now - self._attempt.began >= self._attempt.patience(self._peer_timeout)
        ):
            self._begin(now)

    def _until_check(self) -> float:
        if self._ended or (self._attempt is None and self._keepalive is not None):
            return self._tick
        if self._attempt is None:
            return 0.0  # the connection broke: the next turn tries another
        due = self._attempt.began + self._attempt.patience(self._peer_timeout)
        return max(0.0, min(self._tick, due - self._clock()))

    def _end(self, how: Gone) -> None:
        if self._ended:
            return
        self._ended = True
        if how.kind != "closed":  # so that the server notices, if anything reaches it
            self._unplug()
            self._abandon_attempt()
        self._listener.gone(0, how)

    # -- what comes in ----------------------------------------------------------------------

    def _hear(self, socket: Any, head: bytes, frames: "list[zmq.Frame]") -> None:
        kind, session = head[0], self._session
        if self._attempt is not None and socket is self._attempt.socket:
            if kind == protocol.WELCOME:
                self._adopt(head, frames[0])
            elif kind == protocol.REFUSED:
                self._ended = True
                self._listener.refused(*protocol.refused(head))
            elif kind == protocol.DROPPED:
                self._end(Gone("silent", self._peer_timeout, pid=self._server_pid))
        elif kind == protocol.DATA and len(frames) > 1:
            if session.take(protocol.number_of(head)):
                self._listener.message(0, frames[1].buffer)
        elif kind == protocol.RECEIVED:
            session.confirm(protocol.number_of(head))
        elif kind == protocol.BYE:
            lost = protocol.number_of(head) - session.received
            self._put(bytes([protocol.HEARD]))
            self._end(Gone("closed", lost=lost, pid=self._server_pid))
        elif kind == protocol.DROPPED:
            self._end(Gone("silent", self._peer_timeout, pid=self._server_pid))
        elif kind == protocol.UNSAID:
            self._put(bytes([protocol.HEARD]))
            if not self._start_over():
                self._end(Gone("closed", pid=self._server_pid))

    # -- what goes out ----------------------------------------------------------------------

    def _send(self) -> None:
        if self._keepalive is None:
            return
        for number, body in self._session.due():
            if not self._put(protocol.numbered(protocol.DATA, number), *protocol.pieces(body)):
                return
        receipt = self._session.receipt()
        if receipt is not None:
            self._put(protocol.numbered(protocol.RECEIVED, receipt))

    def _put(self, *frames: bytes | bytearray | memoryview) -> bool:
        if self._keepalive is None:
            return False
        try:
            self._current.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def _sockets(self) -> list[Any]:
        tried = [] if self._attempt is None else [self._attempt.socket]
        return tried if self._current is None else [self._current, *tried]

    def _keepalives(self) -> list[TcpKeepalive]:
        return [] if self._keepalive is None else [self._keepalive]

    def _tear_down(self) -> None:
        self._unplug()
        self._abandon_attempt()
        self._context.term()


def _heard(socket: Any) -> "Iterator[tuple[bytes, list[zmq.Frame]]]":
    while not socket.closed and (frames := frames_of(socket)) is not None:
        if len(frames[0]):
            yield frames[0].bytes, frames
