"""A member's connection to its host, and what all kinds of connection have in common."""

import threading
from functools import partial
from typing import Protocol

from ..base.cleanup import ReleaseStack
from ..base.clock import Clock
from ..base.security import Keys, SocketFactory
from ..errors import RankRefused
from ..transport import Client, Gone
from .member import Member

_MADE = 10.0


class Link(Protocol):
    """How a member's frames come to the host."""

    address: str

    def post(self, frame: bytes | bytearray) -> None:
        """Send, without waiting; any thread. What cannot be sent any more is dropped."""
        ...

    def reached(self) -> bool:
        """Whether the host is there, or was."""
        ...

    def settle(self, within: float) -> None:
        """Our coming stands, at the latest in so many seconds: it is not taken back any more."""
        ...

    def take_back(self) -> bool:
        """End as if we had never come; False if it is too late for that, and nothing was done."""
        ...

    def close(self, seconds: float) -> None:
        """Hand over what was posted, for at most that long; say goodbye. Idempotent."""
        ...


class Joined:
    """The link of every rank but the host's. Feeds `member` from the line's thread."""

    def __init__(
        self,
        address: str,
        keys: Keys,
        member: Member,
        *,
        sockets: SocketFactory,
        clock: Clock,
        silence: float,
    ) -> None:
        self.address, self._member = address, member
        self._is_reached = False
        self._made = threading.Event()  # the thread may hear before we know the spoke
        seams = {"sockets": sockets, "clock": clock, "silence": silence, "unsaid": self.unsaid}
        spoke = partial(Client, address, member.rank, keys, self, **seams)
        undo = ReleaseStack()
        try:
            self._spoke = undo.acquire(Client.take_back, spoke)
            self._made.set()
        except BaseException:
            undo.close()
            raise

    def post(self, frame: bytes | bytearray) -> None:
        """Send to the host."""
        self._spoke.post(0, frame)

    def reached(self) -> bool:
        """Whether the host welcomed us."""
        return self._is_reached

    def settle(self, within: float) -> None:
        """See `Link`."""
        self._spoke.settle(within)

    def take_back(self) -> bool:
        """See `Link`: the host keeps our place, if all had come."""
        self._spoke.take_back()
        return True

    def close(self, seconds: float) -> None:
        """Hand over, say goodbye."""
        self._spoke.close(seconds)

    # -- from the line ----------------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """The host is there."""
        self._is_reached = True

    def unsaid(self, rank: int) -> None:
        """It was not, after all."""
        self._is_reached = False

    def message(self, rank: int, body: memoryview) -> None:
        """A frame from the host."""
        for answer in self._member.hear(body):
            self._made.wait(_MADE)
            self.post(answer)

    def gone(self, rank: int, how: Gone) -> None:
        """The host's end."""
        self._member.host_gone(how)

    def refused(self, rank: int, reason: str) -> None:
        """The host has this rank already, or never had it."""
        self._member.refuse(RankRefused(rank, reason, "group"))
