"""The connecting end: one line to a hub, made again whenever it breaks (SPEC Q18)."""

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import zmq

from ..clock import Clock, monotonic
from ..keeping import Undo
from ..security import Keys, SocketFactory, destroy
from . import wire
from .events import Gone, Listener
from .line import Line
from .pulse import Pulse
from .station import A_TURN, RETURN_WITHIN, Station, frames_of, pulse_of


@dataclass
class _Try:
    """A connection that has said hello and waits for its welcome."""

    socket: Any
    began: float


class Spoke(Station):
    """Rank `rank`'s line to the hub at `address`; to its listener the hub is rank 0.

    A connection that stays quiet for half of `silence` is not trusted any more: another one is
    tried beside it, since TCP itself waits twice as long as a cut before it sends again. Once
    its hello may have reached the hub, the new one must do: the hub speaks only to the newest.

    The hub need not listen yet. With `patience` it must welcome us within that many seconds.
    Unless it `starts` at once, it says hello after `start`.

    With `unsaid` the line is tentative. Until `settle` we may be taken back. If the hub is, before
    it has confirmed anything, `unsaid` is told, and the next one there gets all that was posted.
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
        silence: float = 10.0,
        patience: float | None = None,
        starts: bool = True,
        unsaid: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(clock, silence)
        self._listener, self._unsaid = listener, unsaid
        self._address, self._rank, self._keys, self._sockets_from = address, rank, keys, sockets
        self._token = secrets.token_bytes(wire.TOKEN_BYTES)
        self._line = Line(settled=unsaid is None)
        self._settle_at: float | None = None
        self._hub_pid = 0
        self._hub_token = b""
        self._ended = False
        self._current: Any = None
        self._pulse: Pulse | None = None
        self._try: _Try | None = None
        self._broken_at: float | None = None
        self._patience = patience or 0.0
        self._welcome_by = None if patience is None else clock() + patience
        undo = Undo()
        try:
            self._context = undo.made(destroy, sockets.context)
            if starts:
                self.start()
        except BaseException:
            undo.close()
            raise

    def settle(self, within: float = 0.0) -> None:
        """We are not taken back any more, from now or so many seconds on."""
        self._settle_at = self._clock() + within
        self._nudge()

    def _turn(self) -> bool:
        closing = self._close_by is not None  # before the posts are taken: none comes after it
        now = self._clock()
        if self._settle_at is not None and now >= self._settle_at and not self._unsays:
            self._line.settled = True
        if self._pulse is None and self._try is None and not self._ended:
            self._begin(now)
        for socket in self._sockets():
            for head, frames in islice(_heard(socket), A_TURN):
                self._hear(socket, head, frames)
                if self._ended or socket.closed:
                    break
        for _ in range(len(self._posts)):
            self._line.post(self._posts.popleft()[1])
        if not self._ended:
            self._check(self._clock())
            self._send()
        if not closing:
            return False
        if not (self._ended or self._line.handed_over or self._is_overdue()):
            return False
        goodbye = self._goodbye(self._line.posted)
        self._put(goodbye)
        if self._unsays and self._try is not None:
            self._try.socket.send(goodbye, zmq.NOBLOCK)  # its hello may have got there
        return True

    # -- connections ------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        """Say hello on a new connection."""
        self._give_up_try()
        socket = self._sockets_from.spoke(self._context, self._address, self._keys, self._silence)
        hello = wire.Hello(self._rank, self._keys.secret, self._token, self._line.had, os.getpid())
        socket.send(hello.pack(), zmq.NOBLOCK)
        self._try = _Try(socket, now)

    def _give_up_try(self) -> None:
        if self._try is not None:
            self._try.socket.close(linger=0)
            self._try = None

    def _adopt(self, head: bytes, frame: "zmq.Frame") -> None:
        """The connection that we tried is welcome: it is the line's from now on."""
        received, pid, token = wire.welcomed(head)
        pulse = pulse_of(frame)
        if self._try is None or pulse is None or not self._is_ours(token):
            return
        if not self._line.resume(received):
            return
        first, self._hub_pid, self._hub_token = self._hub_pid == 0, pid, token
        self._unplug()
        self._current, self._pulse, self._try = self._try.socket, pulse, None
        self._broken_at = self._welcome_by = None
        if first:
            self._listener.arrived(0)

    def _is_ours(self, token: bytes) -> bool:
        """Whether the hub is the one that we know, or stands in the place of one that never was."""
        if self._hub_token in (b"", token):
            return True
        return self._unsaid is not None and self._line.start_over()

    def _start_over(self) -> bool:
        """The hub never was there, and another may come; False if it has confirmed something."""
        if self._unsaid is None or not self._line.start_over():
            return False
        self._unplug()
        self._give_up_try()
        self._hub_pid, self._hub_token, self._broken_at = 0, b"", None
        self._unsaid(0)
        self._nudge()
        return True

    def _unplug(self) -> None:
        if self._pulse is not None:
            self._pulse.close()
            self._pulse = None
        if self._current is not None:
            self._current.close(linger=0)
            self._current = None

    def _check(self, now: float) -> None:
        if self._pulse is not None:
            quiet = self._pulse.quiet()
            if self._pulse.hung_up():
                # The socket stays: what had come in whole before the break, a goodbye perhaps,
                # may still be with libzmq's thread.
                self._pulse.close()
                self._pulse, self._broken_at = None, now
            elif quiet >= self._silence:
                self._end(Gone("silent", self._silence, pid=self._hub_pid))
            elif quiet >= self._silence / 2 and self._try is None:
                self._begin(now)
        if self._ended:
            return
        if self._broken_at is not None and now - self._broken_at >= RETURN_WITHIN:
            self._end(Gone("died", RETURN_WITHIN, pid=self._hub_pid))
        elif self._welcome_by is not None and now >= self._welcome_by:
            self._end(Gone("silent", self._patience))
        elif self._try is not None and now - self._try.began >= max(1.0, self._silence / 5):
            self._begin(now)

    def _end(self, how: Gone) -> None:
        if self._ended:
            return
        self._ended = True
        if how.kind != "closed":  # so that the hub hears of it, if anything reaches it
            self._unplug()
            self._give_up_try()
        self._listener.gone(0, how)

    # -- what comes in ----------------------------------------------------------------------

    def _hear(self, socket: Any, head: bytes, frames: "list[zmq.Frame]") -> None:
        kind, line = head[0], self._line
        if self._try is not None and socket is self._try.socket:
            if kind == wire.WELCOME:
                self._adopt(head, frames[0])
            elif kind == wire.REFUSED:
                self._ended = True
                self._listener.refused(*wire.refused(head))
            elif kind == wire.DROPPED:
                self._end(Gone("silent", self._silence, pid=self._hub_pid))
        elif kind == wire.DATA and len(frames) > 1:
            if line.take(wire.number_of(head)):
                self._listener.message(0, frames[1].buffer)
        elif kind == wire.RECEIVED:
            line.confirm(wire.number_of(head))
        elif kind == wire.BYE:
            lost = wire.number_of(head) - line.received
            self._end(Gone("closed", lost=lost, pid=self._hub_pid))
        elif kind == wire.DROPPED:
            self._end(Gone("silent", self._silence, pid=self._hub_pid))
        elif kind == wire.UNSAID and not self._start_over():
            self._end(Gone("closed", pid=self._hub_pid))

    # -- what goes out ----------------------------------------------------------------------

    def _send(self) -> None:
        if self._pulse is None:
            return
        for number, body in self._line.due():
            if not self._put(wire.numbered(wire.DATA, number), *wire.pieces(body)):
                return
        receipt = self._line.receipt()
        if receipt is not None:
            self._put(wire.numbered(wire.RECEIVED, receipt))

    def _put(self, *frames: bytes | bytearray | memoryview) -> bool:
        if self._pulse is None:
            return False
        try:
            self._current.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def _sockets(self) -> list[Any]:
        tried = [] if self._try is None else [self._try.socket]
        return tried if self._current is None else [self._current, *tried]

    def _pulses(self) -> list[Pulse]:
        return [] if self._pulse is None else [self._pulse]

    def _tear_down(self, linger_ms: int) -> None:
        heard = self._pulse is not None and not self._pulse.hung_up()
        if self._pulse is not None:
            self._pulse.close()
            self._pulse = None
        for socket in self._sockets():
            # With nobody at the other side, what is left would wait for its time to be over.
            says = self._unsays or (heard and socket is self._current)
            socket.close(linger=linger_ms if says else 0)
        self._context.term()


def _heard(socket: Any) -> "Iterator[tuple[bytes, list[zmq.Frame]]]":
    while not socket.closed and (frames := frames_of(socket)) is not None:
        if len(frames[0]):
            yield frames[0].bytes, frames
