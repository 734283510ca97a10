"""The other end of a descriptor: which living processes hold it, or that it lies outside."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from killpoint.inspection.holders import File, Holders, Tcp

_ACCEPTS = 0x10000  # of the flags in net/unix: it listens
_STREAM = 1


class FarEnd(msgspec.Struct, frozen=True):
    """The other end of a descriptor."""

    name: str
    """Name of the waiter's end, for a person."""
    holders: tuple[int, ...] = ()
    """Living processes that hold the other one."""
    watchers: tuple[int, ...] = ()
    """Holders that sleep at the other end right now: it is theirs."""
    outside: bool = False
    """True if any process may come: a listener, a terminal, a timer that runs."""
    doubt: str = ""
    """Text on what cannot be seen of it."""
    own: bool = False
    """True if its holders are its parties for certain, the waiter's own process, too."""
    missing: str = "has no other end"

    def alone(self, pid: int) -> str:
        """Return why only the waiter itself could do anything at it."""
        if pid in self.holders:
            return f"the other end of {self.name} is held by it itself alone"
        return f"{self.name} {self.missing}"


class Ends:
    """Looks them up, for one look."""

    def __init__(
        self,
        holders: Holders,
        watches: Callable[[int], Iterable[tuple[int, bool]]],
        proc: Path = Path("/proc"),
    ) -> None:
        """``watches``: the descriptors that a process sleeps at."""
        self._holders = holders
        self._watches = watches
        self._proc = proc

    def end(self, pid: int, file: File, *, writes: bool) -> FarEnd:
        """The other end of what a process reads, or writes."""
        if file.kind in ("pipe", "fifo"):
            return self._pipe(pid, file, writes=writes)
        if file.kind == "socket":
            return self._socket(pid, file)
        if file.kind == "eventfd":
            return FarEnd("an eventfd", tuple(self._holders.of(file)), own=True)
        if file.kind == "pidfd":
            if file.id < 0:
                return FarEnd("a pidfd", missing="is of a process that has ended")
            return FarEnd(f"the end of pid {file.id}", (file.id,), own=True)
        if file.kind == "timerfd":
            return FarEnd("a timer", outside=bool(file.id), missing="is not set")
        if file.kind == "device" and file.text != "/dev/ptmx":
            return FarEnd(file.text, outside=True)
        if file.kind in ("inotify", "fanotify"):
            return FarEnd(file.text, outside=True)
        return FarEnd(file.text, doubt=f"what would end a wait at {file.text} cannot be seen")

    def _pipe(self, pid: int, file: File, *, writes: bool) -> FarEnd:
        theirs = "r" if writes else "w"
        name = f"{file.kind} {file.id}" if file.kind == "pipe" else file.text
        holders = tuple(self._holders.of(file, theirs))
        watchers = tuple(
            other for other in holders if other != pid and self._at(other, {(file.kind, file.id)})
        )
        doubt = "" if set(holders) - {pid} else self._unseen(pid, file, holders)
        if not holders and file.kind == "fifo":
            doubt = f"{name} may be opened by anybody"
        return FarEnd(name, holders, watchers, doubt=doubt)

    def _socket(self, pid: int, file: File) -> FarEnd:
        name = f"socket {file.id}"
        try:
            peer = self._holders.unix_peer(pid, file.id)
        except OSError as error:
            return FarEnd(name, doubt=f"the kernel does not tell the peers of sockets: {error}")
        if peer is not None:
            return self._held(pid, file, name, peer)
        tcp = self._holders.tcp(pid, file.id)
        if tcp is None:
            return self._other(pid, file, name)
        mine, theirs = tcp
        if mine.state == "0A":
            return FarEnd(f"the listening {name}", outside=True)
        name = f"TCP {name}"
        if theirs is not None and theirs.inode:
            return self._held(pid, file, name, theirs.inode)
        if theirs is not None and theirs.state == "01":
            listeners = self._holders.listeners(pid, mine)
            holders = tuple(sorted({at for x in listeners for at in self._holders.of(x)}))
            return FarEnd(f"{name}, which nobody has accepted yet", holders, own=True)
        if theirs is not None or _here(mine):
            return FarEnd(name, missing="has no other end: no process of this machine has it")
        return FarEnd(name, doubt=f"the other end of {name} is on another machine")

    def _held(self, pid: int, file: File, name: str, peer: int) -> FarEnd:
        holders = tuple(self._holders.of(File("socket", peer)))
        at = {("socket", peer)}
        watchers = tuple(other for other in holders if other != pid and self._at(other, at))
        doubt = "" if set(holders) - {pid} else self._unseen(pid, file, holders)
        return FarEnd(name, holders, watchers, doubt=doubt)

    def _other(self, pid: int, file: File, name: str) -> FarEnd:
        """A Unix socket without a peer, or one of another family."""
        net = self._proc / str(pid) / "net"
        with contextlib.suppress(OSError):
            for line in (net / "unix").read_text().splitlines()[1:]:
                words = line.split()
                if int(words[6]) == file.id:
                    if int(words[3], 16) & _ACCEPTS or int(words[4], 16) != _STREAM:
                        return FarEnd(f"the listening {name}", outside=True)
                    return FarEnd(name, doubt=f"nobody has accepted {name} yet")
        for table in ("udp", "udp6", "netlink", "raw", "packet"):
            with contextlib.suppress(OSError):
                lines = (net / table).read_text().splitlines()[1:]
                if any(str(file.id) in line.split() for line in lines):
                    return FarEnd(f"{table} {name}", outside=True)
        return FarEnd(name, doubt=f"of which kind {name} is cannot be seen")

    def _at(self, pid: int, wanted: set[tuple[str, int]]) -> bool:
        for fd, _ in self._watches(pid):
            file = self._holders.file(pid, fd)
            if file is not None and (file.kind, file.id) in wanted:
                return True
        return False

    def _unseen(self, pid: int, file: File, holders: tuple[int, ...]) -> str:
        """Return why a hidden process might hold it.

        The kernel ends waits at an end that no process holds.
        """
        if not holders:
            return f"who holds the other end of {file.text} cannot be seen"
        if not self._holders.whole and self._standard(pid, file):
            return f"{file.text} leads out of the container, and who is there cannot be seen"
        return self._holders.unreadable

    def _standard(self, pid: int, file: File) -> bool:
        return any(self._holders.file(pid, fd) == file for fd in range(3))


_LOOPBACK, _LOOPBACK_6 = "7F", "0" * 24 + "01000000"
"""Ending of ``127.…``, and all of ``::1``, as the kernel prints them."""


def _here(tcp: Tcp) -> bool:
    """Return whether the far address of a TCP socket is one of this machine's own."""
    host = tcp.far.partition(":")[0]
    loop = host == _LOOPBACK_6 or (len(host) == 8 and host.endswith(_LOOPBACK))
    return loop or host == tcp.local.partition(":")[0]
