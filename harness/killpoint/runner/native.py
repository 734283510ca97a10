"""Native code that holds the interpreter's lock, until another process ends it.

The thread waits for a mutex in a file that both map: no signal cuts such a wait short, so that no
handler written in Python runs before its end, while one that kills by default still kills.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from pathlib import Path
from typing import Any

LIMIT = 60.0
"""Seconds after which the wait ends by itself."""
_SHARED = 1
_ROOM = 64
"""Bytes that a mutex, or its attributes, occupy at most."""


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class NativeWait:
    """The waiting side."""

    def __init__(self, path: Path) -> None:
        """Lay out the file."""
        path.write_bytes(bytes(mmap.PAGESIZE))
        self._libc: Any = ctypes.PyDLL(None)  # it keeps the interpreter's lock during a call
        self._map, self._mutex = _mapped(path)
        traits = ctypes.create_string_buffer(_ROOM)
        self._libc.pthread_mutexattr_init(traits)
        self._libc.pthread_mutexattr_setpshared(traits, _SHARED)
        self._libc.pthread_mutex_init(self._mutex, traits)
        self._libc.pthread_mutex_lock(self._mutex)

    def wait(self, limit: float = LIMIT) -> bool:
        """Wait in native code; return whether another process ended it, and not its limit."""
        until = time.time() + limit
        end = _Time(int(until), int(until % 1 * 1e9))
        return not self._libc.pthread_mutex_timedlock(self._mutex, ctypes.byref(end))

    def close(self) -> None:
        """Unmap the file."""
        del self._mutex
        self._map.close()


def let_go(path: Path) -> None:
    """End the wait of the process that made this file."""
    mapped, mutex = _mapped(path)
    ctypes.CDLL(None).pthread_mutex_unlock(mutex)
    del mutex
    mapped.close()


def _mapped(path: Path) -> tuple[mmap.mmap, Any]:
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), mmap.PAGESIZE)
    return mapped, (ctypes.c_char * _ROOM).from_buffer(mapped)
