"""A process that is no child of the runner or the zygote, watched until it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path

_GET_INFO = 0xC040FF0B
"""PIDFD_GET_INFO with the 64 bytes of its first version."""
_EXIT = 1 << 3
"""Field to request: the exit status. Kernels from 6.15 on report it for a process that was
reaped."""
_INFO = struct.Struct("=QQ11Ii")


class ProcessWatch:
    """Descriptor that becomes readable once the process has ended."""

    def __init__(self, pid: int, role: str) -> None:
        """``role``: name of the process's role.

        Raises:
            ProcessLookupError: it has ended and been reaped already.
        """
        self.pid = pid
        self.role = role
        self._fd = os.pidfd_open(pid)

    def fileno(self) -> int:
        """Return the descriptor, for selectors."""
        return self._fd

    def status(self) -> int | None:
        """Return its exit status, as of waitpid; None if it cannot be read."""
        told = self._told()
        if told is None:
            told = self._read()
        # It may be reaped between the two looks.
        return self._told() if told is None else told

    def _told(self) -> int | None:
        """Return the kernel's status of a process that was reaped."""
        info = bytearray(_INFO.pack(_EXIT, *(0,) * 13))
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._fd, _GET_INFO, info)
            told = _INFO.unpack(info)
            if told[0] & _EXIT:
                return int(told[13])
        return None

    def _read(self) -> int | None:
        """Return the kernel's status of a process that was not reaped."""
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
            if fields[0] in "ZX":
                return int(fields[-1])
        return None

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._fd)
