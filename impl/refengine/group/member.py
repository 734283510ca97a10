"""What one rank has heard: an inbox for each source and kind, meetings that came off, who is gone.

One thread hears; callers' threads read. There is no lock between them: each change is one store
or one append, and every frame is kept until the call that returns it takes it (SPEC R9).
"""

import logging
import struct
from collections import deque
from dataclasses import dataclass, field

from ..base.reentrancy import ReentrancyGuard
from ..errors import RefengineError
from ..transport import Gone
from .bells import Bells
from .departure import Departure
from .frames import Channel, Frame, Kind, pack, unpack, unpack_bodies, unpack_ranks

_log = logging.getLogger(__name__)


@dataclass
class Inbox:
    """Objects of one kind from one rank, not yet taken. One caller at a time."""

    bodies: deque[memoryview] = field(default_factory=lambda: deque[memoryview]())
    taken: int = 0
    guard: ReentrancyGuard = field(default_factory=ReentrancyGuard)

    def any(self) -> bool:
        """Whether something can be taken."""
        return bool(self.bodies)

    def drop(self) -> None:
        """The first one was taken."""
        self.taken += 1
        self.bodies.popleft()

    def restore(self, body: memoryview) -> None:
        """It was not, after all."""
        if not (self.bodies and self.bodies[0] is body):
            self.taken -= 1
            self.bodies.appendleft(body)


@dataclass
class Attendance:
    """A member's side of the meetings of one channel."""

    number: int = 0
    """Of the meeting that the caller has not come back from."""
    met: Frame | None = None
    """What came off, until the caller has taken it."""
    who: Frame | None = None
    """Who was there, as the host said last."""
    guard: ReentrancyGuard = field(default_factory=ReentrancyGuard)

    def result(self) -> Frame | None:
        """The meeting that the caller waits for, if it came off."""
        met = self.met
        return met if met is not None and met.number == self.number else None

    def is_met(self) -> bool:
        """Whether it came off."""
        return self.result() is not None

    def finish(self) -> None:
        """The caller has its result."""
        self.number += 1
        self.met = None

    def resume(self, met: Frame) -> None:
        """It has not, after all."""
        self.met, self.number = met, met.number

    def absent(self, world_size: int, own: int) -> list[int]:
        """Who was not known to have come; if all had, who had given up again."""
        who = self.who
        there: set[int] = set()
        gave_up: set[int] = set()
        if who is not None and who.number == self.number:
            there, gave_up = (set(unpack_ranks(body)) for body in unpack_bodies(who.body))
        away = set(range(world_size)) - there - {own}
        return sorted(away - gave_up or away)


class Member:
    """`hear` and `host_gone` belong to the line's thread; everything else is anybody's."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size
        self.bells = Bells()
        self.inboxes = {
            (kind, source): Inbox()
            for source in range(world_size)
            for kind in (Kind.LETTER, Kind.CAST)
        }
        self.attendances = {channel: Attendance() for channel in Channel}
        self.departures: dict[int, Departure] = {}
        self.host_end: Departure | None = None  # nothing can come any more, from anybody
        self.refusal: RefengineError | None = None

    def hear(self, raw: bytes | bytearray | memoryview) -> list[bytes]:
        """A frame from the host; what to answer it."""
        answers: list[bytes] = []
        try:
            frame = unpack(raw)
            if frame.source >= self.world_size:
                raise ValueError(f"there is no rank {frame.source}")
            answers = self._file(frame)
        except (ValueError, struct.error) as error:
            _log.warning("the host sent what is no frame (%s); it was dropped", error)
        self.bells.ring()
        return answers

    def host_gone(self, how: Gone) -> None:
        """The line to the host has ended; all that it passed on was heard."""
        self.host_end = Departure(0, how)
        self.departures.setdefault(0, self.host_end)
        self.bells.ring()

    def refuse(self, error: RefengineError) -> None:
        """Every call raises this from now on."""
        self.refusal = error
        self.bells.ring()

    def _file(self, frame: Frame) -> list[bytes]:
        kind = frame.kind
        if kind in (Kind.LETTER, Kind.CAST):
            self.inboxes[kind, frame.source].bodies.append(frame.body)
        elif kind is Kind.MET:
            self.attendances[Channel(frame.target)].met = frame
        elif kind is Kind.WHO:
            self.attendances[Channel(frame.target)].who = frame
        elif kind is Kind.GONE:
            self.departures[frame.source] = Departure.unpack(frame.source, frame.body)
        elif kind is Kind.LEAVING:
            self.departures[0] = Departure(0, Gone("closed"))
            return [pack(Kind.SEEN, self.rank)]
        return []

    # -- why a call cannot succeed ----------------------------------------------------------

    def without(self, rank: int, waiting_for: str) -> RefengineError | None:
        """For a call that needs this rank, and has found nothing that it had sent before."""
        departure = self.departures.get(rank, self.host_end)
        return None if departure is None else departure.error(waiting_for)

    def unable_to_send(self, rank: int | None, waiting_for: str) -> RefengineError | None:
        """For a call that sends to a rank (None: to all that are left)."""
        departure = self.departures.get(0)  # no host, no way
        if departure is None and rank is not None:
            departure = self.departures.get(rank)
        return None if departure is None else departure.error(waiting_for)

    def unable_to_meet(self, channel: Channel, waiting_for: str) -> RefengineError | None:
        """For a meeting that has not come off."""
        number = self.attendances[channel].number
        for departure in list(self.departures.values()):
            if channel is Channel.GATHER and departure.gathers > number and self.host_end is None:
                continue
            return departure.error(waiting_for)
        return None
