"""Page points: a copy into shared memory is held at the exact page that it writes next.

Userfaultfd write-protects the pages of every segment under /dev/shm that this process maps; the
first store to each page blocks until the holder of the descriptor releases it. The holder must be
another process, because a copy made by the interpreter holds its lock. Page points do not see loads
(a reader's copy stores to memory of its own), nor stores that the kernel makes.

A copy that was held is not a prefix: memmove may store a message's first bytes last.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from killpoint.points.refusal import Refused

PAGE = os.sysconf("SC_PAGESIZE")
_SYSCALL = {"x86_64": 323, "aarch64": 282, "riscv64": 282}
_USER_MODE_ONLY = 1
_API, _REGISTER, _UNREGISTER = 0xC018AA3F, 0xC020AA00, 0x8010AA01
_WRITE_PROTECT = 0xC018AA06
_FEATURES = 1 | 1 << 12  # faults by write protection, in shared memory
_MODE_WP = 2
_PAGEFAULT = 0x12
_MESSAGE = struct.Struct("=BBHIQQQ")
_MAPPED = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) rw-s .* /dev/shm/(\S+)", re.MULTILINE)


class Segment(msgspec.Struct, frozen=True):
    """A mapped range of shared memory, in bytes."""

    name: str
    start: int
    length: int

    def page(self, address: int) -> int:
        """Return the index of the segment's page that contains an address."""
        return (address - self.start) // PAGE


class Protected:
    """Write protection of this process's shared memory, until :meth:`end`."""

    def __init__(self) -> None:
        """Protect every page of every segment mapped now.

        Raises:
            Refused: this machine does not permit it.
        """
        self.segments = mapped(Path("/proc/self/maps").read_bytes())
        self.fd = _open()
        try:
            for segment in self.segments:
                _ask(self.fd, _REGISTER, segment.start, segment.length, _MODE_WP, 0)
                _ask(self.fd, _WRITE_PROTECT, segment.start, segment.length, 1)
        except OSError as error:
            os.close(self.fd)
            raise Refused(f"write protection of shared memory: {error.strerror}") from error

    def end(self) -> None:
        """Lift the protection."""
        for segment in self.segments:
            with contextlib.suppress(OSError):  # unmapped meanwhile
                _ask(self.fd, _UNREGISTER, segment.start, segment.length)
        os.close(self.fd)


def mapped(maps: bytes) -> list[Segment]:
    """Return the writable shared segments in a process's ``maps`` text, unlinked ones too."""
    found = [(os.fsdecode(name), int(a, 16), int(b, 16)) for a, b, name in _MAPPED.findall(maps)]
    return [Segment(name, start, end - start) for name, start, end in found]


def faults(fd: int) -> Iterator[int]:
    """Yield the page addresses of stores that wait now; ``fd``: the protecting descriptor."""
    while True:
        try:
            message = os.read(fd, _MESSAGE.size)
        except BlockingIOError:
            return
        kind, _, _, _, _, address, _ = _MESSAGE.unpack(message)
        if kind == _PAGEFAULT:
            yield address & ~(PAGE - 1)


def allow(fd: int, address: int) -> None:
    """Release the stores to one page; a process that has died is no error."""
    try:
        _ask(fd, _WRITE_PROTECT, address, PAGE, 0)
    except OSError as error:
        if error.errno not in (errno.ESRCH, errno.ENOENT):
            raise


def _open() -> int:
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise Refused(f"userfaultfd: its number on {platform.machine()} is not known here")
    libc = ctypes.CDLL(None, use_errno=True)
    flags = os.O_CLOEXEC | os.O_NONBLOCK
    fd = libc.syscall(number, flags)
    if fd < 0:
        fd = libc.syscall(number, flags | _USER_MODE_ONLY)  # allowed without privileges
    if fd < 0:
        raise Refused(f"userfaultfd: {os.strerror(ctypes.get_errno())}")
    try:
        _ask(fd, _API, 0xAA, _FEATURES, 0)
    except OSError as error:
        os.close(fd)
        raise Refused(f"userfaultfd cannot write-protect shared memory: {error}") from error
    return fd


def _ask(fd: int, request: int, *words: int) -> None:
    fcntl.ioctl(fd, request, bytearray(struct.pack(f"{len(words)}Q", *words)))
