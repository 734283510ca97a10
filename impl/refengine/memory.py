"""Named shared memory under /dev/shm that its creator alone unlinks (SPEC R8, Q15)."""

import contextlib
import errno
import mmap
import os
import stat
from pathlib import Path
from typing import Protocol

from .descriptors import Descriptors
from .errors import AttachFailed, MemoryShort
from .ownership import SHM, new_name


class Segment(Protocol):
    """Memory that parties share; `buf` is writable and of at least the size asked for."""

    @property
    def name(self) -> str:
        """For `attach`."""
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
    """Where segments come from: the seam for simulated memory."""

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
        own = Descriptors()
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
        own = Descriptors()
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
