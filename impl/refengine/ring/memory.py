"""The memory of a ring: shared segments, the words in them, and the fence between accesses.

A segment is named shared memory under /dev/shm that its creator alone unlinks (SPEC R8, Q15).
`SharedWords` is the seam for flags: every load and store of one goes through it. CPython has no
memory fence of its own; a `Fence` is made of a lock.
"""

import contextlib
import errno
import mmap
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, overload

from ..base.fds import HeldFds
from ..base.ownership import SHM, new_name
from ..errors import AttachFailed, MemoryShort


class Fence(Protocol):
    """A lock used without waiting: `acquire(False)` then `release()` is a fence, so is each alone.

    Both halves are locked instructions on x86, which is a full fence there. Measured: 0 stale
    Dekker rounds of 300 000 with it, up to 276 without. Each party has its own, so it is free
    where a pair begins. Two fences with little in between are the two halves of one pair.

    An exception in between leaves it locked. `acquire` then returns False, and was no fence:
    `restart_fence` makes up for it. The calls are written out, because a call around them would
    double their price.
    """

    def acquire(self, blocking: bool = True, /) -> bool:
        """The first half."""
        ...

    def release(self) -> None:
        """The second half."""
        ...


def restart_fence(fence: Fence) -> None:
    """Free a fence that an exception left locked, and begin a new pair."""
    fence.release()
    fence.acquire(False)


def lock_fence() -> Fence:
    """The fence of one party."""
    return threading.Lock()


class SharedWords(Protocol):
    """A view of the ring's memory; every load and store of a flag or sleeper word goes through it.

    Slices are byte strings: `cells[a:b] = bytes` stores each of them (in any order), and
    `cells[a:b]` compares equal to the bytes there. A plain memoryview is one.
    """

    @overload
    def __getitem__(self, at: int, /) -> int: ...
    @overload
    def __getitem__(self, at: slice, /) -> object: ...
    @overload
    def __setitem__(self, at: int, value: int, /) -> None: ...
    @overload
    def __setitem__(self, at: slice, value: bytes, /) -> None: ...


MakeSharedWords = Callable[[memoryview], SharedWords]
"""Wraps the ring's whole memory (offsets are those of `Layout`)."""


def raw_words(memory: memoryview) -> SharedWords:
    """Return the memory itself, without a wrapper."""
    return memory


class Segment(Protocol):
    """Memory that parties share; `buf` is writable and of at least the size asked for."""

    @property
    def name(self) -> str:
        """Name to attach by."""
        ...

    @property
    def buf(self) -> memoryview:
        """The whole of it."""
        ...

    def unlink(self) -> None:
        """Remove the name (the creator only, once; a no-op elsewhere)."""
        ...

    def close(self) -> None:
        """Drop the mapping."""
        ...


class Memory(Protocol):
    """Maker of segments: the seam for simulated memory."""

    def create(self, nbytes: int) -> Segment:
        """A new one, zeroed; MemoryShort if there is no room."""
        ...

    def attach(self, name: str, nbytes: int) -> Segment:
        """An existing one; AttachFailed if it is not there or too small."""
        ...


class SharedSegment:
    """One mapped file of /dev/shm. Make it by `create` or `attach`."""

    def __init__(self, name: str, mapping: mmap.mmap, creator_pid: int | None) -> None:
        self.name = name
        self._mapping = mapping
        self._creator_pid = creator_pid
        self.buf = memoryview(mapping)

    @classmethod
    def create(cls, nbytes: int) -> "SharedSegment":
        """A new segment with every page reserved; MemoryShort if there is no room."""
        name = new_name()
        try:
            return cls._named(name, nbytes)
        except BaseException:  # wherever it came from, nothing stays behind (R9)
            (SHM / name).unlink(missing_ok=True)
            raise

    @classmethod
    def _named(cls, name: str, nbytes: int) -> "SharedSegment":
        path = SHM / name
        room = os.statvfs(SHM)
        if nbytes > room.f_bavail * room.f_frsize:  # before taking it all from everybody
            raise MemoryShort(str(path), nbytes, os.strerror(errno.ENOSPC))
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        own = HeldFds()
        fd = own.open(os.open, path, flags, 0o600)
        try:
            os.fchmod(fd, 0o600)
            os.posix_fallocate(fd, 0, nbytes)
            return cls(name, mmap.mmap(fd, nbytes), os.getpid())
        except OSError as error:
            raise MemoryShort(str(path), nbytes, os.strerror(error.errno or 0)) from error

    @classmethod
    def attach(cls, name: str, nbytes: int) -> "SharedSegment":
        """Map an existing segment; AttachFailed if it is missing, foreign or too small."""
        path = str(SHM / Path(name).name)
        own = HeldFds()
        try:
            fd = own.open(os.open, path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise AttachFailed(path, os.strerror(error.errno or 0)) from error
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise AttachFailed(path, "it is not a file of this user")
        if found.st_size < nbytes:
            raise AttachFailed(path, f"{found.st_size} bytes, {nbytes} needed")
        return cls(name, mmap.mmap(fd, nbytes), None)

    def unlink(self) -> None:
        """Remove the name: only in the creating process, and only once."""
        if self._creator_pid != os.getpid():
            return
        with contextlib.suppress(FileNotFoundError):
            (SHM / self.name).unlink()
        self._creator_pid = None

    def close(self) -> None:
        """Drop the mapping; views still held elsewhere keep it until they go."""
        with contextlib.suppress(BufferError):
            self.buf.release()
            self._mapping.close()
