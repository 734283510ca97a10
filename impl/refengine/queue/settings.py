"""Test seams and policies of one end of a queue."""

from dataclasses import dataclass, field
from typing import Literal

from ..base.clock import Clock, monotonic
from ..base.security import SocketFactory
from ..base.serialization import Limits
from ..ring.memory import Fence, MakeSharedWords, Memory, SharedSegment, raw_words
from ..ring.waiting import Adaptive, WaitStrategy
from .chunking import ChunkingConfig

ReaderPolicy = Literal["raise", "continue"]


@dataclass(frozen=True)
class Settings:
    """Every field has a default that serves; tests and simulations bring their own."""

    waiting: WaitStrategy | None = None
    reader_policy: ReaderPolicy = "raise"
    limits: Limits = field(default_factory=Limits)
    clock: Clock = monotonic
    memory: Memory | type[SharedSegment] = SharedSegment
    sockets: SocketFactory = field(default_factory=SocketFactory)
    cells: MakeSharedWords = raw_words
    fence: Fence | None = None
    peer_timeout: float = 10.0
    """Seconds without a sign of life after which a remote party counts as cut off (SPEC Q18)."""

    chunking: ChunkingConfig = field(default_factory=ChunkingConfig)

    def waiting_for(self, n_reader: int) -> WaitStrategy:
        """Return the strategy given, or a new `Adaptive`."""
        return self.waiting or Adaptive(n_reader, self.clock)
