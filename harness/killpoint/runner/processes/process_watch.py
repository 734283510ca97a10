"""A process that is nobody's child of ours, watched until it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path

_GET_INFO = 0xC040FF0B
"""PIDFD_GET_INFO with the 64 bytes of its first version."""
_EXIT = 1 << 3
"""What to ask for: how it ended. Kernels from 6.15 on tell it of a process that was reaped."""
_INFO = struct.Struct("=QQ11Ii")


class ProcessWatch:
    """A descriptor that can be read once the process has ended."""

    def __init__(self, pid: int, role: str) -> None:
        """``role``: whose process it is.

        Raises:
            ProcessLookupError: it has ended and been reaped already.
        """
        self.pid = pid
        self.role = role
        self._fd = os.pidfd_open(pid)

    def fileno(self) -> int:
        """For selectors."""
        return self._fd

    def status(self) -> int | None:
        """How it ended, as waitpid would say it; None if nobody tells."""
        told = self._told()
        if told is None:
            told = self._read()
        # Whoever reaps it may do so between the two looks.
        return self._told() if told is None else told

    def _told(self) -> int | None:
        """What the kernel says of a process that was reaped."""
        info = bytearray(_INFO.pack(_EXIT, *(0,) * 13))
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._fd, _GET_INFO, info)
            told = _INFO.unpack(info)
            if told[0] & _EXIT:
                return int(told[13])
        return None

    def _read(self) -> int | None:
        """What it says of one that was not."""
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
            if fields[0] in "ZX":
                return int(fields[-1])
        return None

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._fd)
