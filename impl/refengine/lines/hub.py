"""The listening end: one TCP port, one line to each rank that proves to know the key."""

from collections import deque
from collections.abc import Collection
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
    gone: Gone | None = None

    def unplug(self) -> None:
        if self.pulse is not None:
            self.pulse.close()
            self.pulse = None


class Hub(Station):
    """Listens at exactly `host`. A rank that was cut off is waited for, for `silence` seconds.

    Nothing is sent to, or taken from, a party that has not shown the key over an encrypted
    connection (SPEC S3). `port` 0 takes a free one; `address` tells.
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
    ) -> None:
        super().__init__(clock, silence)
        self._keys, self._listener = keys, listener
        self._broadcasts: deque[tuple[int, Body]] = deque()
        self._fars = {rank: _Far(rank) for rank in ranks}
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

    def _turn(self) -> bool:
        closing = self._close_by is not None  # before the posts are taken: none comes after it
        for frames in islice(iter(lambda: frames_of(self._socket), None), A_TURN):
            self._hear(*frames)
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
            if far.gone is None:
                self._check(far, now)
                self._send(far)
        if not closing:
            return False
        waiting = any(f.gone is None and not f.line.handed_over for f in self._fars.values())
        if waiting and not self._is_overdue():
            return False
        for far in self._fars.values():
            self._put(far, wire.numbered(wire.BYE, far.line.posted))
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

    def _greet(self, identity: bytes, head: bytes, frame: "zmq.Frame") -> None:
        hello = wire.Hello.unpack(head)
        if hello is None or not self._keys.match(hello.secret):
            return  # a stranger is not worth an answer
        far = self._fars.get(hello.rank)
        if far is None:
            self._refuse(identity, hello, f"unknown; the ranks are {sorted(self._fars)}")
        elif far.gone is not None:
            self._answer(identity, bytes([wire.DROPPED]))
        elif far.token not in (b"", hello.token):
            self._refuse(identity, hello, "another party already has it")
        elif not far.line.resume(hello.received):
            self._refuse(identity, hello, f"it claims to have had {hello.received} messages")
        else:
            self._plug(far, identity, hello, pulse_of(frame))

    def _plug(self, far: _Far, identity: bytes, hello: wire.Hello, pulse: Pulse | None) -> None:
        first, far.token, far.pid = not far.token, hello.token, hello.pid
        far.unplug()
        far.broken_at = self._clock() if pulse is None else None
        if pulse is not None:
            far.identity, far.pulse = identity, pulse
            self._answer(identity, wire.welcome(far.line.received, self._pid))
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
                self._listener.message(far.rank, bodies[0].buffer)
        elif kind == wire.RECEIVED:
            line.confirm(wire.number_of(head))
        elif kind == wire.BYE:
            lost = wire.number_of(head) - line.received
            self._lose(far, Gone("closed", lost=lost, pid=far.pid))

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
