"""Events that a session reports to its user."""

from dataclasses import dataclass
from typing import Literal, Protocol

from ..errors import PeerDied, PeerSilent, QueueClosed, RefengineError


@dataclass(frozen=True)
class Gone:
    """The end of a peer, and its kind.

    closed: it said goodbye; died: its connection broke and was not back within `seconds`; silent:
    nothing came from it for `seconds`.
    """

    kind: Literal["closed", "died", "silent"]
    seconds: float = 0.0
    lost: int = 0
    """Number of messages that it had posted and, by its goodbye, could not hand over."""
    pid: int = 0
    """Pid on its own machine; 0 if it never connected."""

    def error(self, role: str, waiting_for: str) -> RefengineError:
        """Return the error for a call that waited for the peer."""
        if self.kind == "closed":
            return QueueClosed(role)
        if self.kind == "silent":
            return PeerSilent(role, self.seconds, waiting_for)
        return PeerDied(role, self.pid, waiting_for, broken=self.seconds)


class Listener(Protocol):
    """The user of a server or client. All calls come from its own thread, one at a time."""

    def arrived(self, rank: int) -> None:
        """Take note that this peer has proved that it knows the key, for the first time."""
        ...

    def message(self, rank: int, body: memoryview) -> None:
        """Take the next message of this peer: in order, once. `body` may be kept."""
        ...

    def gone(self, rank: int, how: Gone) -> None:
        """Take note that nothing comes from this peer any more. Called once for each."""
        ...

    def refused(self, rank: int, reason: str) -> None:
        """Take note that a rank was refused: to a peer with the key (server), or to us (client)."""
        ...


class ServerListener(Listener, Protocol):
    """The user of a server."""

    def broken(self, rank: int) -> None:
        """Take note that the connection is gone; the peer will be `back`, or `gone`."""
        ...

    def back(self, rank: int) -> None:
        """Take note that the peer has a new connection."""
        ...
