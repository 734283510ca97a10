"""Ends of pipes and sockets, events and locks: which living processes of the machine hold them."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections import defaultdict
from pathlib import Path

import msgspec

from killpoint.runner.network.sock_diag import unix_peers

_NAMED = re.compile(r"(pipe|socket):\[(\d+)\]")
_FLAGS = re.compile(r"^flags:\s*([0-7]+)$", re.MULTILINE)
_EVENT = re.compile(r"^eventfd-id:\s*(\d+)$", re.MULTILINE)
_PID = re.compile(r"^Pid:\s*(-?\d+)$", re.MULTILINE)
_ARMED = re.compile(r"^it_value: \((\d+), (\d+)\)$", re.MULTILINE)
_LOCKED = re.compile(r"^lock:\s+\d+: \S+\s+\S+\s+\S+\s+-?\d+ \S+:(\d+) ", re.MULTILINE)
_MAPPED = re.compile(r"^(\w+)-(\w+) \S{3}s (\w+) (\S+) (\d+) +(.*)$", re.MULTILINE)
_PRIVATE_TCP = ("tcp", "tcp6")
_STANDARD = 2
_OTHER = {"r": "w", "w": "r"}
INITIAL_PIDS = "pid:[4026531836]"
"""The kernel's first namespace of processes: from it every process is seen."""


class File(msgspec.Struct, frozen=True):
    """An open file: the object behind a descriptor."""

    kind: str
    """``pipe``, ``fifo``, ``socket``, ``eventfd``, ``timerfd``, ``pidfd``, ``epoll``, ``device``,
    ``file`` or another word of the kernel's."""
    id: int = 0
    """Inode, number of an event, or process id."""
    way: str = ""
    """``r``, ``w`` or ``rw``."""
    text: str = ""
    """Name that the kernel gives it."""


class Tcp(msgspec.Struct, frozen=True):
    """A line of a process's ``net/tcp``."""

    state: str
    local: str
    far: str
    inode: int


class Mapped(msgspec.Struct, frozen=True):
    """A word of a shared mapping."""

    key: tuple[str, int]
    """Device and inode of the file."""
    offset: int
    """Offset in the file, in bytes."""
    name: str
    pids: tuple[int, ...]
    """Processes that map the file."""


class Holders:
    """Looked up once, for a look: who in the machine holds what."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._by: defaultdict[tuple[str, int], dict[int, set[str]]] = defaultdict(dict)
        self.hidden: list[int] = []
        """Processes whose descriptors may not be listed."""
        self.whole = True
        """True if every process of the machine can be seen from here, outside of a container."""
        with contextlib.suppress(OSError):
            self.whole = str((proc / "self/ns/pid").readlink()) == INITIAL_PIDS
        self.locks: dict[int, set[int]] = defaultdict(set)
        """Processes that hold a lock of a file, by its inode."""
        for entry in proc.iterdir():
            if entry.name.isdigit():
                self._add(int(entry.name))
        self._peers: dict[str, dict[int, int]] = {}
        self._tcp: dict[str, list[Tcp]] = {}
        self._maps: dict[tuple[str, int], set[int]] | None = None

    @property
    def unreadable(self) -> str:
        """Number of processes that are hidden, in words; empty if none is."""
        count = len(self.hidden)
        return f"{count} processes of the tree may not be looked into" if count else ""

    def _add(self, pid: int) -> None:
        try:
            names = os.listdir(self._proc / str(pid) / "fd")  # noqa: PTH208 # names, no paths
        except PermissionError:
            self.hidden.append(pid)
            return
        except OSError:
            return
        for name in names:
            file = self.file(pid, int(name))
            if file is not None and file.kind != "file":
                self._by[file.kind, file.id].setdefault(pid, set()).update(file.way)
            elif file is not None:
                self._add_lock(pid, name)

    def _add_lock(self, pid: int, name: str) -> None:
        with contextlib.suppress(OSError):
            info = (self._proc / str(pid) / "fdinfo" / name).read_text()
            for inode in _LOCKED.findall(info):
                self.locks[int(inode)].add(pid)

    def file(self, pid: int, fd: int) -> File | None:
        """Return the file behind a descriptor; None if it is closed or hidden."""
        at = self._proc / str(pid)
        try:
            text = str((at / "fd" / str(fd)).readlink())
            named = _NAMED.fullmatch(text)
            if named is not None:
                way = self._way(pid, fd) if named[1] == "pipe" else "rw"
                return File(named[1], int(named[2]), way, text)
            if text.startswith("anon_inode:"):
                return self._event(pid, fd, text)
            if text.startswith("/dev/") and not text.startswith("/dev/shm/"):
                return File("device", 0, "rw", text)
            found = (at / "fd" / str(fd)).stat()
            if stat.S_ISFIFO(found.st_mode):
                return File("fifo", found.st_ino, self._way(pid, fd), text)
            return File("file", found.st_ino, "rw", text)
        except OSError:
            return None

    def _event(self, pid: int, fd: int, text: str) -> File:
        kind = text.removeprefix("anon_inode:").strip("[]").removeprefix("event")
        kind = {"fd": "eventfd", "poll": "epoll"}.get(kind, kind)
        if kind not in ("eventfd", "pidfd", "timerfd"):
            return File(kind, 0, "rw", text)
        info = (self._proc / str(pid) / "fdinfo" / str(fd)).read_text()
        if kind == "timerfd":
            armed = _ARMED.search(info)
            return File(kind, int(armed is not None and armed.groups() != ("0", "0")), "r", text)
        found = (_EVENT if kind == "eventfd" else _PID).search(info)
        return File(kind, int(found[1]) if found else 0, "rw", text)

    def _way(self, pid: int, fd: int) -> str:
        flags = _FLAGS.search((self._proc / str(pid) / "fdinfo" / str(fd)).read_text())
        mode = int(flags[1], 8) & os.O_ACCMODE if flags else os.O_RDWR
        return {os.O_RDONLY: "r", os.O_WRONLY: "w"}.get(mode, "rw")

    def of(self, file: File, way: str = "") -> list[int]:
        """Processes that hold it, with this access."""
        found = self._by.get((file.kind, file.id), {})
        return sorted(pid for pid, ways in found.items() if not way or way in ways)

    def lost(self, pid: int) -> list[File]:
        """Return a process's pipes, but for standard streams, whose other end no process has."""
        files: list[File | None] = []
        with contextlib.suppress(OSError):
            names = os.listdir(self._proc / str(pid) / "fd")  # noqa: PTH208 # names, no paths
            files = [self.file(pid, fd) for fd in sorted(map(int, names)) if fd > _STANDARD]
        pipes = [file for file in files if file is not None and file.kind == "pipe"]
        return [f for f in pipes if f.way in _OTHER and not self.of(f, _OTHER[f.way])]

    def unix_peer(self, pid: int, inode: int) -> int | None:
        """The inode at the other end of a Unix socket.

        Raises:
            OSError: the kernel does not reveal it.
        """
        space = self._space(pid)
        if space not in self._peers:
            self._peers[space] = unix_peers(pid)
        return self._peers[space].get(inode)

    def tcp(self, pid: int, inode: int) -> tuple[Tcp, Tcp | None] | None:
        """A TCP socket and the one at its other end, if that is in the same namespace."""
        space = self._space(pid)
        if space not in self._tcp:
            self._tcp[space] = _tcp(self._proc / str(pid) / "net")
        lines = self._tcp[space]
        mine = next((line for line in lines if line.inode == inode), None)
        if mine is None:
            return None
        theirs = (x for x in lines if (x.local, x.far) == (mine.far, mine.local) and x != mine)
        return mine, next(theirs, None)

    def listeners(self, pid: int, tcp: Tcp) -> list[File]:
        """The listening sockets that a TCP connection of a process came to."""
        port = tcp.far.rpartition(":")[2]
        lines = self._tcp.get(self._space(pid), [])
        return [
            File("socket", line.inode)
            for line in lines
            if line.state == "0A" and line.local.rpartition(":")[2] == port
        ]

    def _space(self, pid: int) -> str:
        with contextlib.suppress(OSError):
            return str((self._proc / str(pid) / "ns/net").readlink())
        return ""

    def mapping(self, pid: int, address: int) -> Mapped | None:
        """The shared file that a process maps at an address."""
        for begin, end, offset, device, inode, name in self._mapped(pid):
            start = int(begin, 16)
            if start <= address < int(end, 16):
                key = device, int(inode)
                pids = tuple(sorted(self._mappers().get(key, ())))
                at = int(offset, 16) + address - start
                return Mapped(key, at, name.removesuffix(" (deleted)"), pids)
        return None

    def mappers(self, inode: int) -> list[int]:
        """Processes of the machine that map a file of shared memory."""
        found = (pids for key, pids in self._mappers().items() if key[1] == inode)
        return sorted({pid for pids in found for pid in pids})

    def _mapped(self, pid: int) -> list[tuple[str, ...]]:
        with contextlib.suppress(OSError):
            return _MAPPED.findall((self._proc / str(pid) / "maps").read_text(errors="replace"))
        return []

    def _mappers(self) -> dict[tuple[str, int], set[int]]:
        if self._maps is None:
            self._maps = defaultdict(set)
            for entry in self._proc.iterdir():
                if entry.name.isdigit():
                    for *_, device, inode, _ in self._mapped(int(entry.name)):
                        self._maps[device, int(inode)].add(int(entry.name))
        return self._maps


def _tcp(net: Path) -> list[Tcp]:
    found: list[Tcp] = []
    for table in _PRIVATE_TCP:
        with contextlib.suppress(OSError):
            for line in (net / table).read_text().splitlines()[1:]:
                words = line.split()
                found.append(Tcp(words[3], _plain(words[1]), _plain(words[2]), int(words[9])))
    return found


def _plain(address: str) -> str:
    """An IPv4 address inside an IPv6 one as the IPv4 address that it is."""
    return address.removeprefix("0000000000000000FFFF0000")
