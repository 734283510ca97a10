"""A /dev/shm of a play's own: a small tmpfs in a mount namespace that only its roles enter.

The machine's own /dev/shm is never filled: all processes share it, and it occupies memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from killpoint.runner.network import namespaces
from killpoint.runner.network.namespaces import call, libc
from killpoint.runner.processes.zygote_client import Zygote
from killpoint.runner.protocol import ForkRole

KEEPER = "shm-keeper"
"""Start method of the process that mounts it, and keeps the mount by staying alive."""

_RECURSIVE, _PRIVATE, _NO_SUID_NO_DEVICES = 1 << 14, 1 << 18, 2 | 4
_WITHIN = 10.0


class PrivateShm:
    """The /dev/shm of one play, as the stage sees it from outside."""

    def __init__(self, zygote: Zygote, folder: Path, size: int) -> None:
        """Have it mounted; ``refused`` has the reason if it could not be."""
        self._zygote = zygote
        order = ForkRole(KEEPER, str(folder), start=KEEPER, request=str(size).encode())
        self.pid = zygote.fork(order)
        self.path = Path(f"/proc/{self.pid}/root/dev/shm")
        self.refused = self._answer(_word(folder))

    def _answer(self, word: Path) -> str:
        end = time.monotonic() + _WITHIN
        while not word.exists():
            if time.monotonic() > end:
                return f"the process that mounts a /dev/shm did not answer within {_WITHIN:g} s"
            self._zygote.pause(0.01)
        why = word.read_text("utf-8")
        return why and f"a /dev/shm of the play's own cannot be mounted here: {why}"

    def close(self) -> None:
        """End the keeper, and the mount with it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        end = time.monotonic() + _WITHIN
        while Path(f"/proc/{self.pid}").exists() and time.monotonic() < end:
            self._zygote.pause(0.01)


def keep(folder: Path, size: int) -> None:
    """Mount, report the result, and stay until killed."""
    why = ""
    try:
        namespaces.enter_new(namespaces.NEW_MOUNTS)
        call(libc.mount, b"none", b"/", None, _RECURSIVE | _PRIVATE, None)
        options = f"size={size},mode=1777".encode()
        call(libc.mount, b"tmpfs", b"/dev/shm", b"tmpfs", _NO_SUID_NO_DEVICES, options)
    except OSError as error:
        why = str(error)
    draft = folder / "shm.draft"
    draft.write_text(why, "utf-8")
    draft.rename(_word(folder))
    while True:
        signal.pause()


def join(pid: int) -> None:
    """Enter a keeper's mount namespace (and user namespace, if that gave the right to mount)."""
    here = Path.cwd()
    for kind in ("user", "mnt"):
        namespaces.join(Path(f"/proc/{pid}/ns/{kind}"), Path(f"/proc/self/ns/{kind}"))
    os.chdir(here)


def _word(folder: Path) -> Path:
    return folder / "shm.ready"
