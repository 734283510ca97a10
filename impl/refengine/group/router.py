"""What the host does with what it hears: pass on at once, hold meetings, tell of ends (SPEC G1-G4).

No I/O: each method says what is to be posted to whom, in that order; rank 0 is the host's own
member. Nothing is kept of what was passed on.
"""

import logging
import struct

from ..transport import Gone
from .departure import Departure
from .frames import Channel, Frame, Kind, pack, unpack
from .meeting import Meeting, Post

_log = logging.getLogger(__name__)


class Router:
    """Belongs to one thread."""

    def __init__(self, world_size: int) -> None:
        self._world = range(world_size)
        self._meetings = {channel: Meeting(channel, world_size) for channel in Channel}
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
        return self._meetings[Channel.START].number > 0

    def unsaid(self, rank: int) -> list[Post]:
        """A rank has taken back that it came, and may come again: nobody is told of an end."""
        if not self.whole:
            self._present.discard(rank)
        self._seen.discard(rank)
        return self._to_the_living(
            [post for meeting in self._meetings.values() for post in meeting.unsaid(rank)]
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
            [post for meeting in self._meetings.values() for post in meeting.away(rank)]
        )

    def back(self, rank: int) -> list[Post]:
        """That rank lives."""
        return self._to_the_living(
            [post for meeting in self._meetings.values() for post in meeting.back(rank)]
        )

    def gone(self, rank: int, how: Gone) -> list[Post]:
        """A rank's line has ended; all that it sent before was heard."""
        gather = self._meetings[Channel.GATHER]
        departure = Departure(rank, how, gather.number + (rank in gather.came))
        self._gone.add(rank)
        for meeting in self._meetings.values():
            meeting.leave(rank)
        told = pack(Kind.GONE, rank, body=departure.pack())
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
        meeting = self._meetings[Channel(frame.target)]
        if kind is Kind.COME:
            return meeting.come(source, frame.number, frame.body)
        if kind is Kind.WITHDRAW:
            return meeting.withdraw(source, frame.number)
        if kind is Kind.ASK:
            return meeting.ask(source, frame.number)
        raise ValueError(f"{kind.name} is for the host to say")

    def _to_the_living(self, posts: list[Post]) -> list[Post]:
        return [post for post in posts if post[0] not in self._gone and post[0] in self._world]


def _whole(raw: bytes | bytearray | memoryview) -> bytes | bytearray:
    return bytes(raw) if isinstance(raw, memoryview) else raw
