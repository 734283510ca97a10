"""Exhaustion of a role's resources: descriptors, and room in its own /dev/shm."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
from pathlib import Path

from killpoint.errors import BadUsage

_BALLAST = "killpoint-ballast"
_PIECE = bytes(1 << 16)


def leave_descriptors(spare: int) -> int:
    """Limit this process to its open descriptors and ``spare`` more; return the limit."""
    taken = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}
    taken = {fd for fd in taken if _is_open(fd)}  # the listing's own is closed again
    free = (number for number in itertools.count() if number not in taken)
    soft = next(itertools.islice(free, spare, None))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def fill_shm(pid: int) -> int:
    """Fill the /dev/shm that a process sees; return the number of bytes that took.

    Raises:
        BadUsage: it is the machine's own.
    """
    theirs = Path(f"/proc/{pid}/root/dev/shm")
    if theirs.samefile("/dev/shm"):
        raise BadUsage("fault fill-shm needs a /dev/shm of the play's own: give `shm_bytes`")
    took = 0
    fd = os.open(theirs / _BALLAST, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        for size in (len(_PIECE), 4096):  # the last pages too
            with contextlib.suppress(OSError):
                while True:
                    took += os.write(fd, _PIECE[:size])
    finally:
        os.close(fd)
    return took


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
