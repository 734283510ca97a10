"""The end of a rank's part in a group, and the error that it causes in calls that need the rank."""

import struct
from dataclasses import dataclass
from typing import Literal

from ..errors import GroupClosed, PeerSilent, RankDied, RefengineError
from ..transport import Gone

_KINDS: tuple[Literal["closed", "died", "silent"], ...] = ("closed", "died", "silent")
_FACTS = struct.Struct(">BdIQQ")


@dataclass(frozen=True)
class ExitReason:
    """End of a rank, as the host reports it to the others."""

    rank: int
    how: Gone
    gathers: int = 0
    """Number of gathers that it had given an object to: those can still complete without it."""

    def error(self, waiting_for: str) -> RefengineError:
        """Return the error for a call that needs this rank."""
        if self.how.kind == "closed":
            return GroupClosed(f"rank {self.rank}", self.how.lost)
        if self.how.kind == "silent":
            return PeerSilent(f"rank {self.rank}", self.how.seconds, waiting_for)
        return RankDied(self.rank, self.how.pid, waiting_for)

    def pack(self) -> bytes:
        """Encode as the body of a frame."""
        how = self.how
        kind = _KINDS.index(how.kind)
        return _FACTS.pack(kind, how.seconds, how.pid, max(0, how.lost), self.gathers)

    @classmethod
    def unpack(cls, rank: int, body: memoryview) -> "ExitReason":
        """Decode the body of a frame."""
        kind, seconds, pid, lost, gathers = _FACTS.unpack(body)
        return cls(rank, Gone(_KINDS[int(kind)], seconds, lost, pid), gathers)
