"""State of one rank: an inbox for each source and kind, barriers released, ranks that have ended.

One thread receives; callers' threads read. There is no lock between them: each change is one
store or one append, and every frame is kept until the call that returns it takes it (SPEC R9).
"""

import logging
import struct
from collections import deque
from dataclasses import dataclass, field

from ..base.reentrancy import ReentrancyGuard
from ..errors import RefengineError
from ..transport import Gone
from .exit_reason import ExitReason
from .protocol import Channel, Frame, Kind, pack, unpack, unpack_bodies, unpack_ranks
from .wakers import Wakers

_log = logging.getLogger(__name__)


@dataclass
class Inbox:
    """Objects of one kind from one rank, not yet taken. One caller at a time."""

    bodies: deque[memoryview] = field(default_factory=lambda: deque[memoryview]())
    taken: int = 0
    guard: ReentrancyGuard = field(default_factory=ReentrancyGuard)

    def any(self) -> bool:
        """Return whether an object is there."""
        return bool(self.bodies)

    def drop(self) -> None:
        """Remove the first object: it was taken."""
        self.taken += 1
        self.bodies.popleft()

    def restore(self, body: memoryview) -> None:
        """Put an object back: it was not taken, after all."""
        if not (self.bodies and self.bodies[0] is body):
            self.taken -= 1
            self.bodies.appendleft(body)


@dataclass
class BarrierTicket:
    """A rank's side of the barriers of one channel."""

    number: int = 0
    """Number of the barrier that the caller has not returned from."""
    met: Frame | None = None
    """Release of a barrier, until the caller has taken it."""
    who: Frame | None = None
    """Ranks that have come, as the host reported last."""
    guard: ReentrancyGuard = field(default_factory=ReentrancyGuard)

    def result(self) -> Frame | None:
        """Return the release of the barrier that the caller waits for, if it has come."""
        met = self.met
        return met if met is not None and met.number == self.number else None

    def is_met(self) -> bool:
        """Return whether the release has come."""
        return self.result() is not None

    def finish(self) -> None:
        """Go on to the next barrier: the caller has its result."""
        self.number += 1
        self.met = None

    def resume(self, met: Frame) -> None:
        """Restore a release: the caller has not got it, after all."""
        self.met, self.number = met, met.number

    def absent(self, world_size: int, own: int) -> list[int]:
        """Return the ranks not known to have come; if all had, those that had given up again."""
        who = self.who
        there: set[int] = set()
        gave_up: set[int] = set()
        if who is not None and who.number == self.number:
            there, gave_up = (set(unpack_ranks(body)) for body in unpack_bodies(who.body))
        away = set(range(world_size)) - there - {own}
        return sorted(away - gave_up or away)


class Member:
    """One rank's state. `hear` and `host_gone` belong to the connection's thread."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size
        self.wakers = Wakers()
        self.inboxes = {
            (kind, source): Inbox()
            for source in range(world_size)
            for kind in (Kind.LETTER, Kind.CAST)
        }
        self.tickets = {channel: BarrierTicket() for channel in Channel}
        self.exits: dict[int, ExitReason] = {}
        self.host_end: ExitReason | None = None  # nothing can come any more, from any rank
        self.refusal: RefengineError | None = None

    def hear(self, raw: bytes | bytearray | memoryview) -> list[bytes]:
        """Store a frame from the host; return the answers to it."""
        answers: list[bytes] = []
        try:
            frame = unpack(raw)
            if frame.source >= self.world_size:
                raise ValueError(f"there is no rank {frame.source}")
            answers = self._file(frame)
        except (ValueError, struct.error) as error:
            _log.warning("the host sent what is no frame (%s); it was dropped", error)
        self.wakers.wake_all()
        return answers

    def host_gone(self, how: Gone) -> None:
        """Record the end of the connection to the host; all that it passed on was stored."""
        self.host_end = ExitReason(0, how)
        self.exits.setdefault(0, self.host_end)
        self.wakers.wake_all()

    def refuse(self, error: RefengineError) -> None:
        """Let every call raise this error from now on."""
        self.refusal = error
        self.wakers.wake_all()

    def _file(self, frame: Frame) -> list[bytes]:
        kind = frame.kind
        if kind in (Kind.LETTER, Kind.CAST):
            self.inboxes[kind, frame.source].bodies.append(frame.body)
        elif kind is Kind.MET:
            self.tickets[Channel(frame.target)].met = frame
        elif kind is Kind.WHO:
            self.tickets[Channel(frame.target)].who = frame
        elif kind is Kind.GONE:
            self.exits[frame.source] = ExitReason.unpack(frame.source, frame.body)
        elif kind is Kind.LEAVING:
            self.exits[0] = ExitReason(0, Gone("closed"))
            return [pack(Kind.SEEN, self.rank)]
        return []

    # -- why a call cannot succeed ----------------------------------------------------------

    def without(self, rank: int, waiting_for: str) -> RefengineError | None:
        """Return the error for a call that needs this rank, and has found nothing sent earlier."""
        exit_reason = self.exits.get(rank, self.host_end)
        return None if exit_reason is None else exit_reason.error(waiting_for)

    def unable_to_send(self, rank: int | None, waiting_for: str) -> RefengineError | None:
        """Return the error for a call that sends to a rank (None: to all that are left)."""
        exit_reason = self.exits.get(0)  # no host, no way
        if exit_reason is None and rank is not None:
            exit_reason = self.exits.get(rank)
        return None if exit_reason is None else exit_reason.error(waiting_for)

    def unable_to_meet(self, channel: Channel, waiting_for: str) -> RefengineError | None:
        """Return the error for a barrier or gather that is not released."""
        number = self.tickets[channel].number
        for exit_reason in list(self.exits.values()):
            if channel is Channel.GATHER and exit_reason.gathers > number and self.host_end is None:
                continue
            return exit_reason.error(waiting_for)
        return None
