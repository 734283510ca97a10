"""What a reader is made from: picklable, and silent about its key (SPEC 3, S3)."""

from dataclasses import dataclass

from .ring import RingHandle
from .security import Keys


@dataclass(frozen=True)
class Handle:
    """A queue's address card. `door` and `overflow` are paths in a 0700 directory."""

    n_reader: int
    local_reader_ranks: tuple[int, ...]
    ring: RingHandle
    door: str
    overflow: str
    keys: Keys
