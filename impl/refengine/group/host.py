"""The host: connections to all other ranks, and one thread that routes their frames."""

import logging
import struct
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue

from ..clock import Clock
from ..keeping import Undo
from ..lines import Gone, Hub
from ..security import Keys, SocketFactory
from .barrier import BarrierState, Post
from .exit_reason import ExitReason
from .member import Member
from .protocol import Channel, Frame, Kind, pack, unpack

_log = logging.getLogger(__name__)
_STOPPED = 1.0
_ANSWERED = 10.0


class HostServer:
    """The link of rank 0. Feeds `member`, and everybody else's through the hub."""

    def __init__(
        self,
        host: str,
        port: int,
        keys: Keys,
        member: Member,
        *,
        sockets: SocketFactory,
        clock: Clock,
        silence: float,
    ) -> None:
        self._member, self._clock = member, clock
        self._router = Router(member.world_size)
        self._work: SimpleQueue[Callable[[], list[Post]] | None] = SimpleQueue()
        self._quiet = threading.Event()
        ranks = range(1, member.world_size)
        options = {"sockets": sockets, "clock": clock, "silence": silence, "unsaid": self.unsaid}
        hub = partial(Hub, host, port, ranks, keys, self, **options)
        undo = Undo()
        try:
            undo.callback(self._work.put, None)
            self._hub = undo.made(Hub.take_back, hub)
            self.address = self._hub.address
            self._thread = threading.Thread(target=self._serve, name="HostServer", daemon=True)
            self._thread.start()
        except BaseException:
            undo.close()
            raise

    def post(self, frame: bytes | bytearray) -> None:
        """A frame of our own member."""
        self._work.put(lambda: self._router.hear(0, frame))

    def reached(self) -> bool:
        """We are here."""
        return True

    def settle(self, within: float) -> None:
        """See `Link`: we are, with the last rank to come."""

    def take_back(self) -> bool:
        """See `Link`: not once all had come, for some may go on from that."""
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
        """Linger until all was passed on that others sent before they knew (SPEC G4)."""
        by = self._clock() + seconds
        self._work.put(self._router.leave)
        self._quiet.wait(seconds * 0.75)
        self._hub.close(max(0.0, by - self._clock()))
        self._work.put(None)
        self._thread.join(_STOPPED)

    # -- from the lines ---------------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """A member's line."""
        self._work.put(lambda: self._router.arrived(rank))

    def unsaid(self, rank: int) -> None:
        """A member has not come after all."""
        self._work.put(lambda: self._router.unsaid(rank))

    def message(self, rank: int, body: memoryview) -> None:
        """A frame from a member."""
        self._work.put(lambda: self._router.hear(rank, body))

    def gone(self, rank: int, how: Gone) -> None:
        """A member's end."""
        self._work.put(lambda: self._router.gone(rank, how))

    def broken(self, rank: int) -> None:
        """A member that may be dead already, or come back."""
        self._work.put(lambda: self._router.broken(rank))

    def back(self, rank: int) -> None:
        """It has come back."""
        self._work.put(lambda: self._router.back(rank))

    def refused(self, rank: int, reason: str) -> None:
        """Somebody with the key wanted what is not to be had; it was told so."""
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
    """Belongs to one thread."""

    def __init__(self, world_size: int) -> None:
        self._world = range(world_size)
        self._barriers = {channel: BarrierState(channel, world_size) for channel in Channel}
        self._gone: set[int] = set()
        self._present: set[int] = set()
        self._seen: set[int] = set()

    def arrived(self, rank: int) -> list[Post]:
        """A rank's line is there for the first time."""
        self._present.add(rank)
        return []

    @property
    def whole(self) -> bool:
        """Whether all ranks have come once, and were let in."""
        return self._barriers[Channel.START].number > 0

    def unsaid(self, rank: int) -> list[Post]:
        """A rank has taken back that it came, and may come again: nobody is told of an end."""
        if not self.whole:
            self._present.discard(rank)
        self._seen.discard(rank)
        return self._to_the_living(
            [post for barrier in self._barriers.values() for post in barrier.unsaid(rank)]
        )

    def hear(self, rank: int, raw: bytes | bytearray | memoryview) -> list[Post]:
        """A frame from a rank, whose line has proved who it is."""
        try:
            frame = unpack(raw)
            if frame.source != rank:
                raise ValueError(f"it says that it is from rank {frame.source}")
            return self._to_the_living(self._answer(frame, raw))
        except (ValueError, struct.error) as error:
            _log.warning("rank %d sent what is no frame (%s); it was dropped", rank, error)
            return []

    def broken(self, rank: int) -> list[Post]:
        """A rank that may be dead: nobody is released on the strength of its having come (G3)."""
        return self._to_the_living(
            [post for barrier in self._barriers.values() for post in barrier.away(rank)]
        )

    def back(self, rank: int) -> list[Post]:
        """That rank lives."""
        return self._to_the_living(
            [post for barrier in self._barriers.values() for post in barrier.back(rank)]
        )

    def gone(self, rank: int, how: Gone) -> list[Post]:
        """A rank's line has ended; all that it sent before was heard."""
        gather = self._barriers[Channel.GATHER]
        exit_reason = ExitReason(rank, how, gather.number + (rank in gather.came))
        self._gone.add(rank)
        for barrier in self._barriers.values():
            barrier.leave(rank)
        told = pack(Kind.GONE, rank, body=exit_reason.pack())
        return self._to_the_living([(other, told) for other in self._world])

    def leave(self) -> list[Post]:
        """The host leaves; `quiet` once nobody will send any more."""
        told = pack(Kind.LEAVING, 0)
        return self._to_the_living([(rank, told) for rank in self._present])

    @property
    def quiet(self) -> bool:
        """Whether every member has said, after `leave`, that it sends no more, or is gone."""
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
