"""A rank's connection to its host, and the interface of both kinds of connection."""

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
    """Interface by which a rank's frames reach the host."""

    address: str

    def post(self, frame: bytes | bytearray) -> None:
        """Send a frame from any thread, without waiting; drop it if the connection has ended."""
        ...

    def reached(self) -> bool:
        """Return whether the host has answered, now or earlier."""
        ...

    def settle(self, within: float) -> None:
        """Make this rank's joining final within so many seconds: it is not taken back any more."""
        ...

    def take_back(self) -> bool:
        """End as if this rank had never joined; False, with nothing done, if it is too late."""
        ...

    def close(self, seconds: float) -> None:
        """Hand over what was posted, for at most that long; say goodbye. Idempotent."""
        ...


class MemberConnection:
    """Connection of a rank other than 0. Its thread hands frames to `member`."""

    def __init__(
        self,
        address: str,
        keys: Keys,
        member: Member,
        *,
        sockets: SocketFactory,
        clock: Clock,
        peer_timeout: float,
    ) -> None:
        self.address, self._member = address, member
        self._is_reached = False
        self._made = threading.Event()  # the thread may hear before we know the spoke
        options = {
            "sockets": sockets,
            "clock": clock,
            "peer_timeout": peer_timeout,
            "unsaid": self.unsaid,
        }
        spoke = partial(Client, address, member.rank, keys, self, **options)
        undo = ReleaseStack()
        try:
            self._spoke = undo.acquire(Client.take_back, spoke)
            self._made.set()
        except BaseException:
            undo.close()
            raise

    def post(self, frame: bytes | bytearray) -> None:
        """Send a frame to the host."""
        self._spoke.post(0, frame)

    def reached(self) -> bool:
        """Return whether the host has accepted this rank."""
        return self._is_reached

    def settle(self, within: float) -> None:
        """See `Link`."""
        self._spoke.settle(within)

    def take_back(self) -> bool:
        """See `Link`: if all ranks had joined, the host keeps the place."""
        self._spoke.take_back()
        return True

    def close(self, seconds: float) -> None:
        """Hand over what was posted, say goodbye."""
        self._spoke.close(seconds)

    # -- from the line ----------------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """Record that the host has accepted this rank."""
        self._is_reached = True

    def unsaid(self, rank: int) -> None:
        """Record that the host has taken back its joining."""
        self._is_reached = False

    def message(self, rank: int, body: memoryview) -> None:
        """Hand a frame of the host to `member`, and post the answers."""
        for answer in self._member.hear(body):
            self._made.wait(_MADE)
            self.post(answer)

    def gone(self, rank: int, how: Gone) -> None:
        """Record the host's end."""
        self._member.host_gone(how)

    def refused(self, rank: int, reason: str) -> None:
        """Record that the host has this rank already, or never had it."""
        self._member.refuse(RankRefused(rank, reason, "group"))
