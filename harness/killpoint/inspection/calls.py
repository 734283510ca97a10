"""System calls in which threads sleep, from ``/proc/PID/task/TID``: their number and arguments.

Nothing is stopped for it. What the arguments point to (the descriptors of a ``poll``, a time limit)
is read from the process's memory, by the right to trace it.
"""

from __future__ import annotations

import contextlib
import math
import platform
import struct
import time
from pathlib import Path

import msgspec

_X86 = (
    "0 read 1 write 7 poll 17 pread64 19 readv 20 writev 23 select 34 pause 35 nanosleep 42 connect"
    " 43 accept 44 sendto 45 recvfrom 46 sendmsg 47 recvmsg 61 wait4 72 fcntl 73 flock"
    " 128 rt_sigtimedwait 130 rt_sigsuspend 202 futex 219 restart_syscall 230 clock_nanosleep"
    " 232 epoll_wait 247 waitid 270 pselect6 271 ppoll 275 splice 281 epoll_pwait 288 accept4"
    " 299 recvmmsg 307 sendmmsg 441 epoll_pwait2"
)
_ARM = (
    "22 epoll_pwait 25 fcntl 32 flock 63 read 64 write 65 readv 66 writev 72 pselect6 73 ppoll"
    " 76 splice 95 waitid 98 futex 101 nanosleep 115 clock_nanosleep 128 restart_syscall"
    " 133 rt_sigsuspend 137 rt_sigtimedwait 202 accept 203 connect 206 sendto 207 recvfrom"
    " 211 sendmsg 212 recvmsg 242 accept4 243 recvmmsg 260 wait4 269 sendmmsg 441 epoll_pwait2"
)
_NUMBERS = {"x86_64": _X86, "aarch64": _ARM}.get(platform.machine(), "").split()
NAMES = dict(zip(map(int, _NUMBERS[::2]), _NUMBERS[1::2], strict=True))
"""Calls in which a thread may sleep long, by number."""

_ACCEPTS = frozenset({"accept", "accept4"})
READS = _ACCEPTS | {"read", "pread64", "readv", "recvfrom", "recvmsg", "recvmmsg", "splice"}
WRITES = frozenset(["write", "writev", "sendto", "sendmsg", "sendmmsg"])
_POLLS = frozenset({"poll", "ppoll"})
_EPOLLS = frozenset({"epoll_wait", "epoll_pwait", "epoll_pwait2"})
_SELECTS = frozenset({"select", "pselect6"})
_NAPS = {"nanosleep": 0, "clock_nanosleep": 2}
_POLLIN, _POLLOUT = 0x1, 0x4
_MASK = (1 << 32) - 1
_MOST_FDS = 4096


SHORT = 5.0
"""Seconds: a sleep that is no longer is one of a loop, which looks up again and again."""


class Call(msgspec.Struct, frozen=True):
    """One thread, and its system call."""

    pid: int
    tid: int
    state: str
    """The kernel's letter, of this thread."""
    name: str = ""
    """Name of the call; ``running``: in none; a bare number: an unknown one; empty: hidden."""
    args: tuple[int, ...] = ()
    wchan: str = ""
    """The kernel's function in which it sleeps, where it tells."""
    comm: str = ""
    """Name that the thread gave itself."""
    switches: str = ""
    """Number of times that it has been on a processor; equal at two looks: it has not moved."""

    def limit(self, proc: Path = Path("/proc")) -> float:
        """Seconds after which the kernel ends the call by itself, counted from its begin.

        Infinite if it never does.
        """
        found = math.inf
        with contextlib.suppress(OSError, struct.error, IndexError):
            found = self._limit(proc)
        return found

    def _limit(self, proc: Path) -> float:
        name, args = self.name, self.args
        if name in _NAPS:
            flags = args[1] if name == "clock_nanosleep" else 0
            return _until(self._time(args[_NAPS[name]], proc), absolute=flags & 1, monotonic=True)
        if name in ("poll", "epoll_wait", "epoll_pwait"):
            thousandths = args[2 if name == "poll" else 3] & _MASK
            return math.inf if thousandths >> 31 else thousandths / 1000
        if name == "select":
            seconds, small = struct.unpack("qq", self._bytes(args[4], 16, proc))
            return seconds + small / 1e6
        if name == "futex":
            bits = args[1] & 0x7F
            real = bool(args[1] & 0x100)
            absolute = bits == 9  # FUTEX_WAIT_BITSET; FUTEX_WAIT counts from now
            return _until(self._time(args[3], proc), absolute=absolute, monotonic=not real)
        at = {"ppoll": 2, "pselect6": 4, "rt_sigtimedwait": 2, "epoll_pwait2": 3}.get(name)
        return math.inf if at is None else self._time(args[at], proc)

    def _time(self, address: int, proc: Path) -> float:
        seconds, small = struct.unpack("qq", self._bytes(address, 16, proc))
        return seconds + small / 1e9

    def _bytes(self, address: int, count: int, proc: Path) -> bytes:
        if not address:
            raise OSError("no address")
        return memory(self.pid, address, count, proc)

    def files(self, proc: Path = Path("/proc")) -> list[tuple[int, bool]] | None:
        """Return the descriptors it waits for, and whether it would write; None: unknown."""
        if self.name in READS or self.name in WRITES:
            return [(self.args[0] & _MASK, self.name in WRITES)]
        try:
            if self.name in _POLLS:
                return self._polled(proc)
            if self.name in _SELECTS:
                return self._selected(proc)
            if self.name in _EPOLLS:
                return epolled(self.pid, self.args[0] & _MASK, proc)
        except (OSError, struct.error):
            return None
        return []

    def _polled(self, proc: Path) -> list[tuple[int, bool]]:
        count = min(self.args[1], _MOST_FDS)
        raw = self._bytes(self.args[0], 8 * count, proc) if count else b""
        found = list(struct.iter_unpack("ihh", raw))
        return [(fd, _writes(events)) for fd, events, _ in found if fd >= 0]

    def _selected(self, proc: Path) -> list[tuple[int, bool]]:
        count = min(self.args[0] & _MASK, _MOST_FDS)
        found: list[tuple[int, bool]] = []
        for at, writes in ((1, False), (2, True)):
            if self.args[at] and count:
                words = self._bytes(self.args[at], 8 * -(-count // 64), proc)
                bits = int.from_bytes(words, "little")
                found += [(fd, writes) for fd in range(count) if bits >> fd & 1]
        return found


def epolled(pid: int, fd: int, proc: Path = Path("/proc")) -> list[tuple[int, bool]]:
    """Return the descriptors that an epoll descriptor watches, as :meth:`Call.files` does.

    Raises OSError if they are hidden.
    """
    found: list[tuple[int, bool]] = []
    for line in (proc / str(pid) / "fdinfo" / str(fd)).read_text().splitlines():
        words = line.split()
        if words and words[0] == "tfd:":
            events = int(words[3], 16)
            found.append((int(words[1]), _writes(events)))
    return found


def _writes(events: int) -> bool:
    """Return whether a poll is for room to write, and not for data to read."""
    return bool(events & _POLLOUT and not events & _POLLIN)


def _until(seconds: float, *, absolute: int, monotonic: bool) -> float:
    if not absolute:
        return seconds
    return max(0.0, seconds - (time.monotonic() if monotonic else time.time()))


def memory(pid: int, address: int, count: int, proc: Path = Path("/proc")) -> bytes:
    """Bytes of a process's memory; OSError without the right to trace it."""
    with (proc / str(pid) / "mem").open("rb", 0) as source:
        source.seek(address)
        return source.read(count)


def calls(pid: int, proc: Path = Path("/proc")) -> list[Call]:
    """Return the call of every thread of a process; those that end meanwhile are left out."""
    found: list[Call] = []
    with contextlib.suppress(OSError):
        for task in sorted((proc / str(pid) / "task").iterdir(), key=lambda at: int(at.name)):
            with contextlib.suppress(OSError, ValueError, IndexError):
                found.append(_call(pid, task))
    return found


def _call(pid: int, task: Path) -> Call:
    comm, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
    state = rest.split()[0]
    status = (task / "status").read_text()
    switches = status[status.index("voluntary_ctxt_switches") :]
    name, args = "", ()
    with contextlib.suppress(OSError):
        first, *words = (task / "syscall").read_text().split()
        name = NAMES.get(int(first), first) if first.lstrip("-").isdigit() else first
        args = tuple(int(word, 16) for word in words[:6])
    wchan = ""
    with contextlib.suppress(OSError):
        wchan = (task / "wchan").read_text().strip("\0\n")
    wchan = wchan if wchan != "0" else ""
    return Call(pid, int(task.name), state, name, args, wchan, comm, switches)
