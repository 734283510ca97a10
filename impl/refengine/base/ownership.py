"""Names that carry their owner process, and the removal of names of dead owners (SPEC L1)."""

import contextlib
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

PREFIX = "refengine"
SHM = Path("/dev/shm")
SOCKETS = ("door", "overflow")
"""Names of the sockets in a directory of `new_directory`."""
_LONGEST = 90  # sockaddr_un holds 108 with the file's name


@dataclass(frozen=True)
class Owner:
    """A process: its pid namespace, pid, and start time in clock ticks since boot."""

    namespace: int
    pid: int
    start: int

    @classmethod
    def me(cls) -> "Owner":
        """The calling process."""
        pid = os.getpid()
        return cls(_namespace(), pid, _start_of(pid) or 0)

    @classmethod
    def named(cls, name: str) -> "Owner | None":
        """The owner that a name from `new_name` carries, or None for any other name."""
        parts = Path(name).name.split("-")
        if len(parts) != 5 or parts[0] != PREFIX:
            return None
        try:
            return cls(int(parts[1]), int(parts[2]), int(parts[3]))
        except ValueError:
            return None

    def is_gone(self) -> bool:
        """True only if this process certainly no longer runs (never across pid namespaces)."""
        try:
            return self.namespace == _namespace() and _start_of(self.pid) != self.start
        except OSError:  # no descriptor to look with: nothing is known
            return False


_ending: set[int] = set()
"""Pid of this process once it may make no more names; a forked child has another."""


def new_name() -> str:
    """A fresh name that carries the calling process; OSError once that has removed its own."""
    me = Owner.me()
    if me.pid in _ending:
        raise OSError("this process is ending, and makes nothing any more")
    return f"{PREFIX}-{me.namespace}-{me.pid}-{me.start}-{secrets.token_hex(6)}"


def new_directory() -> Path:
    """A fresh private (0700) directory for sockets, short enough for a socket path in it."""
    path = _new_path()
    try:
        path.mkdir(0o700)
        path.chmod(0o700)  # whatever the umask took away
        return path  # noqa: TRY300  an exception on the way out is one of those caught
    except BaseException:
        remove_directory(path)
        raise


def _new_path() -> Path:
    for parent in _temporary():
        path = parent / new_name()
        if len(str(path)) <= _LONGEST:
            return path
    raise OSError("no directory for sockets has a path short enough")


def remove_directory(path: Path) -> None:
    """Remove a directory of `new_directory`, with its sockets; without a descriptor, too."""
    for name in SOCKETS:
        with contextlib.suppress(OSError):
            (path / name).unlink()
    with contextlib.suppress(OSError):
        path.rmdir()
    shutil.rmtree(path, ignore_errors=True)


def remove_if_orphan(path: Path) -> bool:
    """Remove a segment or socket directory whose owner is dead and of our user; else leave it."""
    owner = Owner.named(path.name)
    if owner is None or not owner.is_gone():
        return False
    try:
        if path.lstat().st_uid != os.geteuid():
            return False
    except FileNotFoundError:
        return False
    if path.is_dir() and not path.is_symlink():
        remove_directory(path)
    else:
        path.unlink(missing_ok=True)
    return True


def remove_stale_names() -> list[Path]:
    """Remove segments and directories of this user's dead processes; return their paths."""
    removed: list[Path] = []
    for folder in {SHM, *_temporary()}:
        with contextlib.suppress(OSError):
            removed += [p for p in folder.glob(f"{PREFIX}-*") if remove_if_orphan(p)]
    return removed


def remove_own() -> list[Path]:
    """Remove the calling process's segments and directories: it is about to be ended.

    Its other threads get no more names from then on. One may have got its name just before: a
    caller that has time left calls this twice.
    """
    me, removed = Owner.me(), list[Path]()
    _ending.add(me.pid)
    for folder in {SHM, *_temporary()}:
        for path in folder.glob(f"{PREFIX}-*"):
            if Owner.named(path.name) == me:
                remove_directory(path) if path.is_dir() else path.unlink(missing_ok=True)
                removed.append(path)
    return removed


def _temporary() -> list[Path]:
    return [Path(tempfile.gettempdir()), Path("/tmp")]


def _namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _start_of(pid: int) -> int | None:
    """Start time of a running process; None when there is none, or only its zombie.

    OSError: that could not be found out.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])
