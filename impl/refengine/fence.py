"""A full memory fence for CPython, which has none of its own."""

import threading
from typing import Protocol


class Fence(Protocol):
    """A lock nobody waits for: `acquire(False)` then `release()` is one full fence.

    Both halves are locked instructions on x86. Measured (facts/queue-performance): 0 stale Dekker
    rounds of 300 000 with it, up to 276 without. Each party has its own, so it is always free;
    left locked by an exception between the halves, the next `release` frees it. The pair is
    written out wherever it is needed, because a call around it would double its price.
    """

    def acquire(self, blocking: bool = True, /) -> bool:
        """The first half."""
        ...

    def release(self) -> None:
        """The second half."""
        ...


def lock_fence() -> Fence:
    """The fence of one party."""
    return threading.Lock()
