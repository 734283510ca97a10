"""Stores to the slots' flags, recorded in one order over all roles of a play."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path

from killpoint.history.log import Log


class StoreRecorder:
    """Recorder that logs each store while holding a lock that all roles of the play share.

    The store itself is made inside the block, so the numbers are the real order of the stores. The
    kernel releases the lock of a process that dies in it.
    """

    def __init__(self, counter: Path, log: Log) -> None:
        """Share the counter file of this play."""
        self._fd = os.open(counter, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._log = log

    @contextlib.contextmanager
    def __call__(self, slot: int, flag: int, value: int) -> Generator[None]:
        """Log one store, which is made inside the block."""
        fcntl.lockf(self._fd, fcntl.LOCK_EX)
        try:
            turn = int.from_bytes(os.pread(self._fd, 8, 0), "little")
            os.pwrite(self._fd, (turn + 1).to_bytes(8, "little"), 0)
            self._log.write("store", turn=turn, slot=slot, flag=flag, value=value)
            yield
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN)
