"""How a rank's part in a group ended, and the error that this is to who needs it."""

import struct
from dataclasses import dataclass
from typing import Literal

from ..errors import GroupClosed, PeerSilent, RankDied, RefengineError
from ..transport import Gone

_KINDS: tuple[Literal["closed", "died", "silent"], ...] = ("closed", "died", "silent")
_FACTS = struct.Struct(">BdIQQ")


@dataclass(frozen=True)
class Departure:
    """What the host tells the others of a rank that is gone."""

    rank: int
    how: Gone
    gathers: int = 0
    """Gathers that it had contributed to: those can still come off without it."""

    def error(self, waiting_for: str) -> RefengineError:
        """For a call that needs this rank."""
        if self.how.kind == "closed":
            return GroupClosed(f"rank {self.rank}", self.how.lost)
        if self.how.kind == "silent":
            return PeerSilent(f"rank {self.rank}", self.how.seconds, waiting_for)
        return RankDied(self.rank, self.how.pid, waiting_for)

    def pack(self) -> bytes:
        """As a body."""
        how = self.how
        kind = _KINDS.index(how.kind)
        return _FACTS.pack(kind, how.seconds, how.pid, max(0, how.lost), self.gathers)

    @classmethod
    def unpack(cls, rank: int, body: memoryview) -> "Departure":
        """It again."""
        kind, seconds, pid, lost, gathers = _FACTS.unpack(body)
        return cls(rank, Gone(_KINDS[int(kind)], seconds, lost, pid), gathers)
