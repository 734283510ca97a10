"""Lateness of a plain wait beside the server: the control of all verdicts about time.

A thread of ordinary priority measures it, whatever the priority of the play's own thread is.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator

_TICK, _LATE = 0.02, 0.005
"""Seconds that a wait lasts, and by which it must be late to be noted."""


class Lateness:
    """Thread that waits again and again, and notes late waits, until it is stopped."""

    def __init__(self) -> None:
        """Start the thread."""
        self._over = threading.Event()
        self._found: deque[int] = deque()
        threading.Thread(target=self._run, name="lateness", daemon=True).start()

    def found(self) -> Iterator[int]:
        """Yield by how much the late waits since the last call were late, in ns."""
        while self._found:
            yield self._found.popleft()

    def stop(self) -> None:
        """Begin no further wait."""
        self._over.set()

    def _run(self) -> None:
        while True:
            before = time.monotonic()
            if self._over.wait(_TICK):
                return
            late = time.monotonic() - before - _TICK
            if late > _LATE:
                self._found.append(int(late * 1e9))
