"""A flood of connections: idle, half-open, garbage, and handshakes that declare what never comes.

``flood`` attacks known ports; ``lurk`` watches for ports as they open, and speaks as a peer of gloo
would, so that a listener that takes it for one hands it a rank's bytes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import socket
import struct
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from killpoint.history.log import Log
from killpoint.runner.observe import exposure_probe

NOBODY = 65534
"""User id of a stranger, where it may change its own."""
NOFILE = 1024
"""Descriptors that a flooded process may have."""
_CONNECTIONS = 1200
"""Connections at each port: more than there are descriptors."""
_AT_ONCE = 25
"""Connections in progress at a time; a backlog takes them all."""
_AT_ONCE_WITHIN = 0.5
_FULL_AFTER = 5.0
"""Seconds without a new connection after which later clients are kept out."""
_ARRIVES_WITHIN = 20.0
_DECLARES = 1 << 30
_POURS = 48 << 20
_WITHIN = 4.0
_KEPT_FOR = 0.5
"""Seconds after which a client that was neither asked for a proof nor hung up on has been let
in."""
_TICK = 0.002
_SEQUENCES = 48
"""Pair numbers to try: a peer of gloo sends the number of a pair, small in a small group."""
_GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + b"\0" * 32
_QUIET = (b"", _GREETING[:11])
_LOUD = (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01" * 9, os.urandom(64))
_ONE_IS_LOUD_OF = 12
"""One connection of so many sends whole garbage; most send nothing, or a part of a greeting, which
a listener cannot judge."""


def as_stranger() -> int:
    """Become another user, if this one may; return the user id."""
    with contextlib.suppress(OSError):
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    return os.geteuid()


@contextlib.contextmanager
def as_itself() -> Generator[None]:
    """Become the play's own user for a block, to read files that only that user can."""
    stranger = os.geteuid()
    os.seteuid(os.getuid())
    try:
        yield
    finally:
        os.seteuid(stranger)


class Crowd:
    """Connections that one stranger holds."""

    def __init__(self, log: Log) -> None:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft))
        self._log = log
        self._lines: list[socket.socket] = []
        self._seen: dict[tuple[str, int], list[socket.socket]] = {}
        self._since: dict[tuple[str, int], float] = {}
        self._kept: set[tuple[str, int]] = set()

    def flood(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Connect the whole crowd to each port, and one that declares a gigabyte and sends."""
        for host, port in addresses:
            self._pour(host, port)
            began = time.monotonic()
            arrived, able = self._come(host, port)
            facts = {"port": port, "asked": _CONNECTIONS, "arrived": arrived, "able": able}
            self._log.write("stranger-flooded", **facts, s=round(time.monotonic() - began, 3))

    def _come(self, host: str, port: int) -> tuple[int, bool]:
        """Connect until the crowd is complete or the listener's queue stays full.

        Returns:
            The number of connections made, and whether this process could make more.
        """
        arrived, last, end = 0, time.monotonic(), time.monotonic() + _ARRIVES_WITHIN
        while arrived < _CONNECTIONS and time.monotonic() < min(end, last + _FULL_AFTER):
            came, able = _connected(host, port, min(_AT_ONCE, _CONNECTIONS - arrived))
            for number, line in enumerate(came, arrived):
                with contextlib.suppress(OSError):
                    line.send(said_by(number))
            self._lines += came
            if came:
                arrived, last = arrived + len(came), time.monotonic()
            if not able:
                return arrived, False
        return arrived, True

    def _pour(self, host: str, port: int) -> None:
        line = _line(host, port)
        if line is None:
            return
        self._lines.append(line)
        end, left = time.monotonic() + _WITHIN, _POURS
        data = memoryview(_GREETING + b"\x06" + struct.pack(">Q", _DECLARES) + bytes(1 << 20))
        with contextlib.suppress(OSError):
            _ready(line, select.POLLOUT, 1.0)
            line.send(data[: len(_GREETING)])
            _ready(line, select.POLLIN, 0.5)
            data = data[len(_GREETING) :]
            while left > 0 and time.monotonic() < end:
                if not _ready(line, select.POLLOUT, 0.5):
                    break  # no process reads it: nothing is accepted
                left -= line.send(data)
                data = data[-(1 << 20) :]

    def lurk(self, pid: int, spared: Sequence[int] = ()) -> None:
        """Connect to every new port of a process tree, and read the data sent there."""
        with as_itself():
            found = [heard for heard in exposure_probe.listeners(pid) if heard.port not in spared]
            libraries = {heard: heard.library for heard in found}
        self._note_kept(libraries)
        for heard in found:
            at = heard.address, heard.port
            if at in self._seen:
                continue
            lines: list[socket.socket] = []
            self._seen[at] = lines
            self._since[at] = time.monotonic()
            for number in range(_SEQUENCES):
                line = _line(*at)
                if line is not None:
                    lines.append(line)
                    _ready(line, select.POLLOUT, 0.2)
                    with contextlib.suppress(OSError):
                        line.send(struct.pack("<q", number))
            self._log.write("stranger-connected", port=heard.port)
        for (_, port), lines in self._seen.items():
            self._read(port, lines)

    def _note_kept(self, libraries: dict[exposure_probe.Listener, str]) -> None:
        """Log listeners that have kept a stranger which spoke as their library's peers do."""
        now = time.monotonic()
        for heard, library in libraries.items():
            at = heard.address, heard.port
            since = self._since.get(at, now)
            if library and at not in self._kept and self._seen.get(at) and now - since > _KEPT_FOR:
                self._kept.add(at)
                facts = {"port": heard.port, "library": library, "by": heard.owner}
                self._log.write("stranger-kept", **facts, lines=len(self._seen[at]))

    def _read(self, port: int, lines: list[socket.socket]) -> None:
        for line in [each for each in lines if _ready(each, select.POLLIN, 0.0)]:
            data = b""
            with contextlib.suppress(OSError):
                data = line.recv(1 << 20)
            if data:
                begin = data[:32].hex()
                facts = {"way": "a peer's handshake", "port": port, "size": len(data)}
                self._log.write("stranger-got", **facts, key="", holds=None, begin=begin)
            else:
                lines.remove(line)
                line.close()

    @property
    def ports(self) -> int:
        """Number of ports at which it has been."""
        return len(self._seen)

    def close(self) -> None:
        """Close all connections."""
        for line in (*self._lines, *(each for lines in self._seen.values() for each in lines)):
            line.close()


def stay(
    crowd: Crowd, folder: Path, name: str, pid: int, seconds: float, spared: Sequence[int] = ()
) -> None:
    """Stay until the runner has put ``NAME.stop`` into the folder; with a pid, lurking."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with as_itself():
            if (folder / f"{name}.stop").exists():
                return
        if pid:
            crowd.lurk(pid, spared)
        select.poll().poll(_TICK * 1000)


def _ready(line: socket.socket, event: int, within: float) -> bool:
    """Return whether the poll event comes in time; ``select`` refuses descriptors above 1023."""
    poller = select.poll()
    poller.register(line, event)
    return bool(poller.poll(within * 1000))


def _line(host: str, port: int) -> socket.socket | None:
    """Return a connection, made or in progress; None without a descriptor or a listener."""
    at = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    family = socket.AF_INET6 if ":" in at else socket.AF_INET
    try:
        line = socket.socket(family)
        line.setblocking(False)
        line.connect_ex((at, port))
    except OSError:
        return None
    return line


def said_by(number: int) -> bytes:
    """Return the data that the connection of this number sends once it is made."""
    loud, among = divmod(number, _ONE_IS_LOUD_OF)
    return _QUIET[number % 2] if among else _LOUD[loud % len(_LOUD)]


def _connected(host: str, port: int, count: int) -> tuple[list[socket.socket], bool]:
    """Make so many new connections; give up those that are not made at once.

    The kernel would try those again by itself, after twice as long each time.

    Returns:
        The connections, and whether this process had descriptors for all of them.
    """
    poller = select.poll()
    made = [line for line in (_line(host, port) for _ in range(count)) if line is not None]
    left = {line.fileno(): line for line in made}
    for line in made:
        poller.register(line, select.POLLOUT)
    came: list[socket.socket] = []
    end = time.monotonic() + _AT_ONCE_WITHIN
    while left and (ready := poller.poll(max(0.0, end - time.monotonic()) * 1000)):
        for fd, _ in ready:
            poller.unregister(fd)
            line = left.pop(fd)
            if line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                came.append(line)
            else:
                line.close()
    for line in left.values():
        line.close()
    return came, len(made) == count
