"""What a line tells its user."""

from dataclasses import dataclass
from typing import Literal, Protocol

from ..errors import PeerDied, PeerSilent, QueueClosed, RefengineError


@dataclass(frozen=True)
class Gone:
    """How a far end ended.

    closed: it said goodbye; died: its connection broke and it did not come back; silent: nothing
    was heard of it for `seconds`.
    """

    kind: Literal["closed", "died", "silent"]
    seconds: float = 0.0
    lost: int = 0
    """Messages that it had posted and, by its goodbye, could not hand over."""
    pid: int = 0
    """On its own machine; 0 if it was never heard of."""

    def error(self, role: str, waiting_for: str) -> RefengineError:
        """The error for a call that waited for it."""
        if self.kind == "closed":
            return QueueClosed(role)
        if self.kind == "silent":
            return PeerSilent(role, self.seconds, waiting_for)
        return PeerDied(role, self.pid, waiting_for)


class Listener(Protocol):
    """The user of a hub or spoke. All calls come from the line's own thread, one at a time."""

    def arrived(self, rank: int) -> None:
        """This far end has proved that it knows the key, for the first time."""
        ...

    def message(self, rank: int, body: memoryview) -> None:
        """The next message of this far end: in order, once. `body` may be kept."""
        ...

    def gone(self, rank: int, how: Gone) -> None:
        """Nothing comes from this far end any more. Called once for each."""
        ...

    def refused(self, rank: int, reason: str) -> None:
        """A hub: somebody with the key asked for this rank in vain. A spoke: so did we."""
        ...


class HubListener(Listener, Protocol):
    """The user of a hub."""

    def broken(self, rank: int) -> None:
        """Its connection is gone; it will be `back`, or `gone`."""
        ...

    def back(self, rank: int) -> None:
        """It has another connection."""
        ...
