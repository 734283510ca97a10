"""The seams and policies of one end of a queue, in one parcel."""

from dataclasses import dataclass, field
from typing import Literal

from .cells import MakeCells, plain
from .clock import Clock, monotonic
from .encoding import Limits
from .fence import Fence
from .fragments import Pieces
from .memory import Memory, SharedSegment
from .security import SocketFactory
from .waiting import Adaptive, Waiting

ReaderPolicy = Literal["raise", "continue"]


@dataclass(frozen=True)
class Settings:
    """Every field has a default that serves; tests and simulations bring their own."""

    waiting: Waiting | None = None
    reader_policy: ReaderPolicy = "raise"
    limits: Limits = field(default_factory=Limits)
    clock: Clock = monotonic
    memory: Memory | type[SharedSegment] = SharedSegment
    sockets: SocketFactory = field(default_factory=SocketFactory)
    cells: MakeCells = plain
    fence: Fence | None = None
    silence: float = 10.0
    """Seconds without a sign of life after which a remote party counts as cut off (SPEC Q18)."""

    pieces: Pieces = field(default_factory=Pieces)

    def waiting_for(self, n_reader: int) -> Waiting:
        """The strategy asked for, or ours."""
        return self.waiting or Adaptive(n_reader, self.clock)
