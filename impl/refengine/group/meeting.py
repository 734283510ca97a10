"""The host's side of a barrier or gather: who has come, with what (SPEC G2, G3, X1).

The meetings of a channel are numbered; one is open at a time, and nothing is kept of those that
came off. A member that gave up is as if it had never come, until it comes again.
"""

from collections.abc import Collection

from .frames import Channel, Kind, pack, pack_bodies, pack_ranks

Post = tuple[int, bytes | bytearray]
"""A rank, and the frame that it is to get."""


class Meeting:
    """The open meeting of one channel. Every method tells what to post."""

    def __init__(self, channel: Channel, world_size: int) -> None:
        self.channel, self.number = channel, 0
        self._world = range(world_size)
        self._came: dict[int, memoryview] = {}
        self._gave_up: set[int] = set()
        self._away: set[int] = set()
        self._curious: set[int] = set()

    @property
    def came(self) -> Collection[int]:
        """Who is there."""
        return self._came.keys()

    def come(self, rank: int, number: int, body: memoryview) -> list[Post]:
        """One more; all are released with the last. A number that came off needs no answer."""
        if number != self.number:
            return []
        self._came[rank] = body
        self._gave_up.discard(rank)
        return self._released() or self._news()

    def _released(self) -> list[Post]:
        """The release, if all are there and, at a barrier, known to live."""
        if len(self._came) < len(self._world) or self._away:
            return []
        bodies = pack_bodies([self._came[rank] for rank in self._world])
        released = pack(Kind.MET, 0, self.channel, self.number, bodies)
        self.number += 1
        self._came.clear()
        self._gave_up.clear()
        self._curious.clear()
        return [(rank, released) for rank in self._world]

    def withdraw(self, rank: int, number: int) -> list[Post]:
        """That one waits no longer; too late if the others were already released."""
        if number != self.number:
            return []
        self._curious.discard(rank)
        if self._came.pop(rank, None) is None:
            return []
        self._gave_up.add(rank)
        return self._news()

    def ask(self, rank: int, number: int) -> list[Post]:
        """That one wants to know who is there."""
        if number != self.number:
            return []
        self._curious.add(rank)
        return [(rank, self._who())]

    def unsaid(self, rank: int) -> list[Post]:
        """A rank has taken back that it came to the group: it is here no more than elsewhere."""
        self._away.discard(rank)
        return self.withdraw(rank, self.number)

    def away(self, rank: int) -> list[Post]:
        """A rank's line is broken: at a barrier it is not there until it is back."""
        if self.channel is Channel.GATHER:
            return []
        self._away.add(rank)
        return self._news()

    def back(self, rank: int) -> list[Post]:
        """It is back; what it had come with still stands."""
        self._away.discard(rank)
        return self._released() or self._news()

    def leave(self, rank: int) -> list[Post]:
        """A rank is gone for good. What it gave to a gather stands; to a barrier it must come."""
        self._curious.discard(rank)
        self._gave_up.discard(rank)
        self._away.discard(rank)
        if self.channel is not Channel.GATHER:
            self._came.pop(rank, None)
        return []

    def _news(self) -> list[Post]:
        who = self._who() if self._curious else b""
        return [(rank, who) for rank in self._curious]

    def _who(self) -> bytes:
        ranks = pack_ranks(self._came.keys() - self._away), pack_ranks(self._gave_up)
        return pack(Kind.WHO, 0, self.channel, self.number, pack_bodies(ranks))
