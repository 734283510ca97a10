"""The host: connections to all other ranks, and one thread that routes frames (SPEC G1-G4).

Callers and connections only put into a queue whose `put` is one step, so that an exception that
strikes a caller anywhere leaves the router whole (SPEC R9). The router does no I/O: each method
returns the frames to post, in that order; rank 0 is the host's own member. Nothing is kept of
the frames that were passed on.
"""

import logging
import struct
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue

from ..base.cleanup import ReleaseStack, ServingThread
from ..base.clock import Clock
from ..base.security import Keys, SocketFactory
from ..transport import Gone, Server
from .barrier import BarrierState, Post
from .exit_reason import ExitReason
from .member import Member
from .protocol import Channel, Frame, Kind, pack, unpack

_log = logging.getLogger(__name__)
_STOPPED = 1.0
_ANSWERED = 10.0


class HostServer:
    """Connection of rank 0. Hands frames to `member`, and to the other ranks through the hub."""

    def __init__(
        self,
        host: str,
        port: int,
        keys: Keys,
        member: Member,
        *,
        sockets: SocketFactory,
        clock: Clock,
        peer_timeout: float,
    ) -> None:
        self._member, self._clock = member, clock
        self._router = Router(member.world_size)
        self._work: SimpleQueue[Callable[[], list[Post]] | None] = SimpleQueue()
        self._quiet = threading.Event()
        ranks = range(1, member.world_size)
        options = {
            "sockets": sockets,
            "clock": clock,
            "peer_timeout": peer_timeout,
            "unsaid": self.unsaid,
        }
        hub = partial(Server, host, port, ranks, keys, self, **options)
        undo = ReleaseStack()
        try:
            undo.callback(self._work.put, None)
            self._hub = undo.acquire(Server.take_back, hub)
            self.address = self._hub.address
            self._thread = ServingThread(self._serve, name="HostServer")
            self._thread.start()
        except BaseException:
            undo.close()
            raise

    def post(self, frame: bytes | bytearray) -> None:
        """Route a frame of the host's own member."""
        self._work.put(lambda: self._router.hear(0, frame))

    def reached(self) -> bool:
        """Return True: this process is the host."""
        return True

    def settle(self, within: float) -> None:
        """See `Link`: the host's joining is final once the last rank has joined."""

    def take_back(self) -> bool:
        """See `Link`: False once all ranks have joined, for some may go on from that."""
        answer: SimpleQueue[bool] = SimpleQueue()

        def withdraw() -> list[Post]:
            posts = self._router.unsaid(0)
            answer.put(self._router.whole)
            return posts

        self._work.put(withdraw)
        try:
            whole = answer.get(timeout=_ANSWERED)
        except Empty:
            whole = False
        if not whole:
            self._hub.take_back()
            self._work.put(None)
            self._thread.join(_STOPPED)
        return not whole

    def close(self, seconds: float) -> None:
        """Linger until all frames were passed on that others sent before they knew (SPEC G4)."""
        by = self._clock() + seconds
        self._work.put(self._router.leave)
        self._quiet.wait(seconds * 0.75)
        self._hub.close(max(0.0, by - self._clock()))
        self._work.put(None)
        self._thread.join(_STOPPED)

    # -- from the lines ---------------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """Record a rank's connection."""
        self._work.put(lambda: self._router.arrived(rank))

    def unsaid(self, rank: int) -> None:
        """Record that a rank has taken back its joining."""
        self._work.put(lambda: self._router.unsaid(rank))

    def message(self, rank: int, body: memoryview) -> None:
        """Route a rank's frame."""
        self._work.put(lambda: self._router.hear(rank, body))

    def gone(self, rank: int, how: Gone) -> None:
        """Record a rank's end."""
        self._work.put(lambda: self._router.gone(rank, how))

    def broken(self, rank: int) -> None:
        """Record a broken connection: the rank may be dead already, or come back."""
        self._work.put(lambda: self._router.broken(rank))

    def back(self, rank: int) -> None:
        """Record that a broken connection is back."""
        self._work.put(lambda: self._router.back(rank))

    def refused(self, rank: int, reason: str) -> None:
        """Log that a peer with the key was refused; it has received the reason."""
        _log.warning("rank %d was refused: %s", rank, reason)

    # -- the thread -------------------------------------------------------------------------

    def _serve(self) -> None:
        leaving = settled = False
        while (step := self._work.get()) is not None:
            leaving = leaving or step == self._router.leave
            try:
                for rank, frame in step():
                    if rank == 0:
                        self._member.hear(frame)
                    else:
                        self._hub.post(rank, frame)
            except Exception:
                _log.exception("a frame could not be passed on")
            if self._router.whole and not settled:
                self._hub.settle()
                settled = True
            if leaving and self._router.quiet:
                self._quiet.set()


_log = logging.getLogger(__name__)


class Router:
    """Routing decisions of the host. Belongs to one thread."""

    def __init__(self, world_size: int) -> None:
        self._world = range(world_size)
        self._barriers = {channel: BarrierState(channel, world_size) for channel in Channel}
        self._gone: set[int] = set()
        self._present: set[int] = set()
        self._seen: set[int] = set()

    def arrived(self, rank: int) -> list[Post]:
        """Record a rank's first connection."""
        self._present.add(rank)
        return []

    @property
    def whole(self) -> bool:
        """True once all ranks have joined."""
        return self._barriers[Channel.START].number > 0

    def unsaid(self, rank: int) -> list[Post]:
        """Record that a rank has taken back its joining and may join again: no end is reported."""
        if not self.whole:
            self._present.discard(rank)
        self._seen.discard(rank)
        return self._to_the_living(
            [post for barrier in self._barriers.values() for post in barrier.unsaid(rank)]
        )

    def hear(self, rank: int, raw: bytes | bytearray | memoryview) -> list[Post]:
        """Route a rank's frame; its connection has proved which rank it is."""
        try:
            frame = unpack(raw)
            if frame.source != rank:
                raise ValueError(f"it says that it is from rank {frame.source}")
            return self._to_the_living(self._answer(frame, raw))
        except (ValueError, struct.error) as error:
            _log.warning("rank %d sent what is no frame (%s); it was dropped", rank, error)
            return []

    def broken(self, rank: int) -> list[Post]:
        """Record a rank that may be dead: no barrier is released that counts it as present (G3)."""
        return self._to_the_living(
            [post for barrier in self._barriers.values() for post in barrier.away(rank)]
        )

    def back(self, rank: int) -> list[Post]:
        """Record that the rank lives."""
        return self._to_the_living(
            [post for barrier in self._barriers.values() for post in barrier.back(rank)]
        )

    def gone(self, rank: int, how: Gone) -> list[Post]:
        """Report a rank's end to all others; all frames that it sent before have been routed."""
        gather = self._barriers[Channel.GATHER]
        exit_reason = ExitReason(rank, how, gather.number + (rank in gather.came))
        self._gone.add(rank)
        for barrier in self._barriers.values():
            barrier.leave(rank)
        told = pack(Kind.GONE, rank, body=exit_reason.pack())
        return self._to_the_living([(other, told) for other in self._world])

    def leave(self) -> list[Post]:
        """Report that the host leaves; `quiet` once no rank will send any more."""
        told = pack(Kind.LEAVING, 0)
        return self._to_the_living([(rank, told) for rank in self._present])

    @property
    def quiet(self) -> bool:
        """True once every rank has confirmed after `leave` that it sends no more, or has ended."""
        return not self._present - self._seen - self._gone

    def _answer(self, frame: Frame, raw: bytes | bytearray | memoryview) -> list[Post]:
        kind, source = frame.kind, frame.source
        if kind is Kind.LETTER:
            return [(frame.target, _whole(raw))]
        if kind is Kind.CAST:
            whole = _whole(raw)
            return [(rank, whole) for rank in self._world if rank != source]
        if kind is Kind.SEEN:
            self._seen.add(source)
            return []
        barrier = self._barriers[Channel(frame.target)]
        if kind is Kind.COME:
            return barrier.come(source, frame.number, frame.body)
        if kind is Kind.WITHDRAW:
            return barrier.withdraw(source, frame.number)
        if kind is Kind.ASK:
            return barrier.ask(source, frame.number)
        raise ValueError(f"{kind.name} is for the host to say")

    def _to_the_living(self, posts: list[Post]) -> list[Post]:
        return [post for post in posts if post[0] not in self._gone and post[0] in self._world]


def _whole(raw: bytes | bytearray | memoryview) -> bytes | bytearray:
    return bytes(raw) if isinstance(raw, memoryview) else raw
