"""A queue whose messages never arrive, and whose segment only it would remove: for hangs."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from killpoint.targets.protocol import Capability, Outcome, QueueShape

_NAME = Path("/dev/shm/stuck-by-the-test")


class NeverArrives:
    """Receive waits for ever."""

    name = "stuck_queue"
    version = "1"
    capabilities: frozenset[Capability] = frozenset(("queue",))

    def load(self) -> None:
        """Nothing."""

    def make(self, shape: QueueShape) -> mmap.mmap:
        """A segment under a name."""
        _NAME.write_bytes(bytes(4096))
        with _NAME.open("r+b") as file:
            return mmap.mmap(file.fileno(), 4096)

    def handle(self, end: Any) -> None:
        """Nothing is needed."""

    def attach(self, handle: Any, rank: int) -> str:
        """An end that is none."""
        return "reader"

    def ready(self, end: Any, timeout: float | None) -> None:
        """At once."""

    def send(self, end: Any, obj: Any, timeout: float | None) -> None:
        """Into nothing."""

    def receive(self, end: Any, timeout: float | None) -> Any:
        """Never."""
        reading, _ = os.pipe()
        return os.read(reading, 1)

    def close(self, end: Any) -> None:
        """Not reached."""

    def classify(self, error: BaseException) -> Outcome:
        """Nothing is raised."""
        return "error"
