"""What a reader is made from: picklable, and silent about its key (SPEC 3, S3)."""

from dataclasses import dataclass

from .ring import RingHandle
from .security import Keys


@dataclass(frozen=True)
class Handle:
    """A queue's address card. `door` and `overflow` are paths in a 0700 directory."""

    n_reader: int
    local_reader_ranks: tuple[int, ...]
    ring: RingHandle | None
    """None, and `door` and `overflow` empty: there is no local reader."""
    door: str
    overflow: str
    keys: Keys
    remote: str = ""
    """tcp://host:port that remote readers connect to; empty: there is none."""
    silence: float = 10.0

    @property
    def remote_reader_ranks(self) -> tuple[int, ...]:
        """The ranks that are not local."""
        return tuple(r for r in range(self.n_reader) if r not in self.local_reader_ranks)
