"""Where one side of a ring waits: its sleeper flag, and what it hears while asleep."""

import os
import time
from collections.abc import Callable
from typing import Protocol

from .cells import Cells
from .fence import Fence
from .waiting.strategy import Fault


class Vigil(Protocol):
    """What a sleeper hears: bell, peers, cancels."""

    def block(self, seconds: float | None) -> None:
        """Sleep until news, at most that long; zero only looks."""
        ...

    def fault(self) -> Fault | None:
        """Why waiting is pointless, as of the last `block`."""
        ...


class RingPost:
    """`waiting.Post` over a ring's sleeper word and a vigil."""

    def __init__(
        self, cells: Cells, sleeper_at: int, fence: Fence, vigil: Vigil, waiting_for: str
    ) -> None:
        self._cells, self._sleeper_at = cells, sleeper_at
        self._fence_in, self._fence_out = fence.acquire, fence.release
        self.block = vigil.block
        self.fault = vigil.fault
        self.waiting_for = waiting_for

    def arm(self) -> None:
        """Dekker's first half: our sleeper flag is out before we look again (SPEC Q8)."""
        self._cells[self._sleeper_at] = 1
        self._fence_in(False)
        self._fence_out()


class NoBell:
    """The vigil of a ring used alone: naps instead of a bell; peers say they left in memory."""

    _NAP = 0.001

    def __init__(self, fault: Callable[[], Fault | None]) -> None:
        self.fault = fault

    def block(self, seconds: float | None) -> None:
        """A short nap, because nobody can ring."""
        if seconds == 0:
            os.sched_yield()
        else:
            time.sleep(self._NAP if seconds is None else min(self._NAP, max(0.0, seconds)))
