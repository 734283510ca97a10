"""A log that survives the death of its writer: each event is one append, in the kernel at once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from killpoint.history.event import Event

_ENCODER = msgspec.json.Encoder()


class Log:
    """Appends the events of one role to its own file.

    A single ``write`` per event hands the line to the kernel, so a SIGKILL loses nothing that
    was logged. Payloads never enter a log, only their digests.
    """

    def __init__(self, path: Path, role: str) -> None:
        """Open the file for appending."""
        self.role = role
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, kind: str, **data: object) -> None:
        """Append one event, stamped now."""
        event = Event(time.monotonic_ns(), self.role, kind, data)
        os.write(self._fd, _ENCODER.encode(event) + b"\n")

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._fd)
