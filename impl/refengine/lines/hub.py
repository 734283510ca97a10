"""The listening end: one TCP port, one line to each rank that proves to know the key."""

import secrets
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import zmq

from ..clock import Clock, monotonic
from ..keeping import Undo
from ..security import Keys, SocketFactory, destroy
from . import wire
from .events import Gone, HubListener
from .line import Body, Line
from .pulse import Pulse
from .station import A_TURN, RETURN_WITHIN, Station, frames_of, pulse_of


@dataclass
class _Far:
    """A rank as the hub knows it. Only with a pulse can anything be sent to it.

    After a break it keeps its identity: what it had sent, a goodbye perhaps, may still be with
    libzmq's thread.
    """

    rank: int
    line: Line = field(default_factory=Line)
    token: bytes = b""
    pid: int = 0
    identity: bytes | None = None
    pulse: Pulse | None = None
    broken_at: float | None = None
    forgotten_at: float | None = None
    gone: Gone | None = None

    def unplug(self) -> None:
        if self.pulse is not None:
            self.pulse.close()
            self.pulse = None


class Hub(Station):
    """Listens at exactly `host`. A rank that was cut off is waited for, for `silence` seconds.

    Nothing is sent to, or taken from, a party that has not shown the key over an encrypted
    connection (SPEC S3). `port` 0 takes a free one; `address` tells.

    With `unsaid` the lines are tentative. Until `settle` we may be taken back. A rank that takes
    its own coming back before it has confirmed anything is forgotten, `unsaid` is told, and
    whoever comes as this rank next gets all that was posted to it. Once we are settled that has
    to be within `silence`, else the rank has left.
    """

    def __init__(
        self,
        host: str,
        port: int,
        ranks: Collection[int],
        keys: Keys,
        listener: HubListener,
        *,
        sockets: SocketFactory,
        clock: Clock = monotonic,
        silence: float = 10.0,
        unsaid: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(clock, silence)
        self._keys, self._listener, self._unsaid = keys, listener, unsaid
        self._token = secrets.token_bytes(wire.TOKEN_BYTES)
        self._settles = unsaid is None
        self._broadcasts: deque[tuple[int, Body]] = deque()
        self._claims: deque[tuple[bytes, bytes, zmq.Frame]] = deque()
        self._fars = {rank: _Far(rank, Line(settled=self._settles)) for rank in ranks}
        undo = Undo()
        try:
            self._context = undo.made(destroy, sockets.context)
            self._socket, self.address = sockets.hub(self._context, host, port, keys, silence)
            self.start()
        except BaseException:
            undo.close()
            raise

    def broadcast(self, number: int, body: Body) -> None:
        """Post the `number`-th message of every line; said again, it changes nothing (SPEC R9)."""
        self._broadcasts.append((number, body))
        self._nudge()

    def settle(self) -> None:
        """We are not taken back any more; from now on what came is confirmed."""
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
            if self._fars[rank].gone is None:
                self._fars[rank].line.post(body)
        for _ in range(len(self._broadcasts)):
            number, body = self._broadcasts.popleft()
            for far in self._fars.values():
                if far.gone is None and far.line.posted == number:
                    far.line.post(body)
        now = self._clock()
        for far in self._fars.values():
            far.line.settled = self._settles
            if far.gone is None:
                self._check(far, now)
                self._send(far)
        if not closing:
            return False
        waiting = any(f.gone is None and not f.line.handed_over for f in self._fars.values())
        if waiting and not self._is_overdue():
            return False
        for far in self._fars.values():
            self._put(far, self._goodbye(far.line.posted))
        return True

    # -- what comes in ----------------------------------------------------------------------

    def _hear(self, sender: "zmq.Frame", *frames: "zmq.Frame") -> None:
        if not frames or len(frames[0]) == 0:
            return
        identity, head = sender.bytes, frames[0].bytes
        if head[0] == wire.HELLO:
            self._greet(identity, head, frames[0])
            return
        far = next((f for f in self._fars.values() if f.identity == identity), None)
        if far is not None:
            self._listen(far, head, frames[1:])

    def _greet(
        self, identity: bytes, head: bytes, frame: "zmq.Frame", *, patient: bool = True
    ) -> None:
        """With patience: who claims a rank that is taken is heard again after all others.

        The last word of the one before may stand behind this hello, for connections take turns.
        """
        hello = wire.Hello.unpack(head)
        if hello is None or not self._keys.match(hello.secret):
            return  # a stranger is not worth an answer
        far = self._fars.get(hello.rank)
        if far is None:
            self._refuse(identity, hello, f"unknown; the ranks are {sorted(self._fars)}")
        elif far.gone is not None:
            self._answer(identity, bytes([wire.DROPPED]))
        elif far.token not in (b"", hello.token) and not self._is_free(far):
            if patient:
                self._claims.append((identity, head, frame))
            else:
                self._refuse(identity, hello, "another party already has it")
        elif not far.line.resume(hello.received):
            self._refuse(identity, hello, f"it claims to have had {hello.received} messages")
        else:
            self._plug(far, identity, hello, pulse_of(frame))

    def _is_free(self, far: _Far) -> bool:
        """Whether its party has hung up, and left no trace."""
        return (far.pulse is None or far.pulse.hung_up()) and self._forget(far)

    def _plug(self, far: _Far, identity: bytes, hello: wire.Hello, pulse: Pulse | None) -> None:
        if pulse is None and not far.token and self._unsaid is not None:
            return  # it has gone away again
        first, far.token, far.pid = not far.token, hello.token, hello.pid
        far.forgotten_at = None
        far.unplug()
        far.broken_at = self._clock() if pulse is None else None
        if pulse is not None:
            far.identity, far.pulse = identity, pulse
            self._answer(identity, wire.welcome(far.line.had, self._pid, self._token))
        if first:
            self._listener.arrived(far.rank)
        elif pulse is not None:
            self._listener.back(far.rank)

    def _refuse(self, identity: bytes, hello: wire.Hello, reason: str) -> None:
        self._answer(identity, wire.refusal(hello.rank, reason))
        self._listener.refused(hello.rank, reason)

    def _listen(self, far: _Far, head: bytes, bodies: "tuple[zmq.Frame, ...]") -> None:
        kind, line = head[0], far.line
        if far.gone is not None:
            return
        if kind == wire.DATA and bodies:
            if line.take(wire.number_of(head)):
                self._listener.message(far.rank, wire.whole([body.buffer for body in bodies]))
        elif kind == wire.RECEIVED:
            line.confirm(wire.number_of(head))
        elif kind == wire.BYE:
            lost = wire.number_of(head) - line.received
            self._lose(far, Gone("closed", lost=lost, pid=far.pid))
        elif kind == wire.UNSAID and not self._forget(far):
            self._lose(far, Gone("closed", pid=far.pid))

    # -- signs of life ----------------------------------------------------------------------

    def _check(self, far: _Far, now: float) -> None:
        if far.pulse is not None:
            if far.pulse.hung_up():
                far.unplug()
                far.broken_at = now
                self._listener.broken(far.rank)
            elif far.pulse.quiet() >= self._silence:
                self._put(far, bytes([wire.DROPPED]))
                self._lose(far, Gone("silent", self._silence, pid=far.pid))
        elif far.broken_at is not None and now - far.broken_at >= RETURN_WITHIN:
            self._lose(far, Gone("died", RETURN_WITHIN, pid=far.pid))
        elif self._settles and now - (far.forgotten_at or now) >= self._silence:
            self._lose(far, Gone("closed", pid=far.pid))

    def _forget(self, far: _Far) -> bool:
        """As if it had never come; False if it has confirmed something."""
        if self._unsaid is None or not far.line.start_over():
            return False
        far.unplug()
        far.token, far.identity, far.broken_at = b"", None, None
        far.forgotten_at = self._clock()
        self._unsaid(far.rank)
        return True

    def _lose(self, far: _Far, how: Gone) -> None:
        far.gone, far.identity = how, None
        far.unplug()
        far.line = Line()  # what was kept for it is kept no longer
        self._listener.gone(far.rank, how)

    # -- what goes out ----------------------------------------------------------------------

    def _send(self, far: _Far) -> None:
        if far.pulse is None:
            return
        for number, body in far.line.due():
            if not self._put(far, wire.numbered(wire.DATA, number), body):
                return
        receipt = far.line.receipt()
        if receipt is not None:
            self._put(far, wire.numbered(wire.RECEIVED, receipt))

    def _put(self, far: _Far, *frames: bytes | bytearray) -> bool:
        if far.pulse is None or far.identity is None:
            return False
        return self._answer(far.identity, *frames)

    def _answer(self, identity: bytes, *frames: bytes | bytearray) -> bool:
        """False if that connection is no more: its pulse will tell, or its hello come again."""
        try:
            self._socket.send_multipart([identity, *frames], zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def _has_posts(self) -> bool:
        return bool(self._posts or self._broadcasts)

    def _sockets(self) -> list[Any]:
        return [self._socket]

    def _pulses(self) -> list[Pulse]:
        return [far.pulse for far in self._fars.values() if far.pulse is not None]

    def _tear_down(self, linger_ms: int) -> None:
        for far in self._fars.values():
            far.unplug()
        self._socket.close(linger=linger_ms)
        self._context.term()
