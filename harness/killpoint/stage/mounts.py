"""A /dev/shm of a play's own: a small tmpfs in a mount namespace that only its roles enter.

The machine's own /dev/shm is never filled: it is everybody's, and memory besides.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

from killpoint.stage.channel import ForkRole
from killpoint.stage.zygote_client import Zygote

KEEPER = "shm-keeper"
"""What the zygote is asked for: a process that mounts, and keeps the mount by being there."""

_NEW_MOUNTS, _NEW_USERS = 0x0002_0000, 0x1000_0000
_RECURSIVE, _PRIVATE, _NO_SUID_NO_DEVICES = 1 << 14, 1 << 18, 2 | 4
_WITHIN = 10.0

_libc = ctypes.CDLL(None, use_errno=True)


class OwnShm:
    """The /dev/shm of one play, as the stage sees it from outside."""

    def __init__(self, zygote: Zygote, folder: Path, size: int) -> None:
        """Have it mounted; ``refused`` says why it could not be."""
        self._zygote = zygote
        order = ForkRole(KEEPER, str(folder), start=KEEPER, errand=str(size).encode())
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
    """Mount, say how it went, and stay until killed."""
    why = ""
    try:
        _enter_new_mounts()
        _call(_libc.mount, b"none", b"/", None, _RECURSIVE | _PRIVATE, None)
        options = f"size={size},mode=1777".encode()
        _call(_libc.mount, b"tmpfs", b"/dev/shm", b"tmpfs", _NO_SUID_NO_DEVICES, options)
    except OSError as error:
        why = str(error)
    draft = folder / "shm.draft"
    draft.write_text(why, "utf-8")
    draft.rename(_word(folder))
    while True:
        signal.pause()


def join(pid: int) -> None:
    """Enter the mounts of a keeper (and its users, where those gave the right to mount)."""
    here = Path.cwd()
    for kind in ("user", "mnt"):
        theirs, ours = f"/proc/{pid}/ns/{kind}", f"/proc/self/ns/{kind}"
        if Path(theirs).readlink() != Path(ours).readlink():
            fd = os.open(theirs, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _call(_libc.setns, fd, 0)
            finally:
                os.close(fd)
    os.chdir(here)


def _word(folder: Path) -> Path:
    return folder / "shm.ready"


def _enter_new_mounts() -> None:
    try:
        _call(_libc.unshare, _NEW_MOUNTS)
    except PermissionError:
        user, group = os.getuid(), os.getgid()
        _call(_libc.unshare, _NEW_USERS | _NEW_MOUNTS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _call(function: ctypes._NamedFuncPointer, *args: bytes | int | None) -> None:  # pyright: ignore[reportPrivateUsage] # its only name
    if function(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), function.__name__)
