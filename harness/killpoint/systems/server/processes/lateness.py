"""How late a plain wait is beside the server: the control of all verdicts about time.

It is measured by a thread of ordinary priority, whatever that of the play's own thread is.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator

_TICK, _LATE = 0.02, 0.005
"""Seconds that a wait lasts, and beyond which it is noted as late."""


class Lateness:
    """Waits again and again until it is told to stop."""

    def __init__(self) -> None:
        """Begin."""
        self._over = threading.Event()
        self._found: deque[int] = deque()
        threading.Thread(target=self._run, name="lateness", daemon=True).start()

    def found(self) -> Iterator[int]:
        """By how much the waits since the last call were late, ns, where they were."""
        while self._found:
            yield self._found.popleft()

    def stop(self) -> None:
        """No further wait begins."""
        self._over.set()

    def _run(self) -> None:
        while True:
            before = time.monotonic()
            if self._over.wait(_TICK):
                return
            late = time.monotonic() - before - _TICK
            if late > _LATE:
                self._found.append(int(late * 1e9))
