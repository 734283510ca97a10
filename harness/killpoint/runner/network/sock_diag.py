"""NETLINK_SOCK_DIAG: the pairs of joined Unix sockets, by inode, as the kernel lists them.

``/proc/PID/fd`` shows the inodes that a process holds; nothing in ``/proc`` shows the other end of
a Unix socket. Sockets are listed for one network namespace at a time.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from killpoint.runner.network import namespaces

_SOCK_DIAG, _BY_FAMILY = 4, 20
_REQUEST, _DUMP = 1, 0x300
_SHOW_PEER, _PEER = 0x4, 2
_ERROR, _DONE = 2, 3
_ALL_STATES = 0xFFFF_FFFF
_HEAD = struct.Struct("=IHHII")  # length, kind, flags, number, port
_ASKED = struct.Struct("=BBHIIIII")  # family, protocol, -, states, inode, show, cookie
_SOCKET = struct.Struct("=BBBxIII")  # family, type, state, inode, cookie
_ATTRIBUTE = struct.Struct("=HH")  # length, kind
_WITHIN = 5.0


def unix_peers(pid: int | None = None) -> dict[int, int]:
    """Return the inode of each joined Unix socket, and of the one at its other end.

    Args:
        pid: Process whose network namespace is read; None: that of the calling process.

    Returns:
        By inode, both ways for a pair. A socket that is not accepted yet, or whose other end is
        closed in every process, has no peer and is not there.

    Raises:
        OSError: the kernel has no such table, or another namespace may not be entered.
    """
    theirs, ours = Path(f"/proc/{pid or os.getpid()}/ns/net"), Path("/proc/self/ns/net")
    if theirs.readlink() == ours.readlink():
        return _asked()
    with ThreadPoolExecutor(1) as alone:  # a namespace is a thread's own
        return alone.submit(_there, theirs).result()


def _there(namespace: Path) -> dict[int, int]:
    namespaces.join(namespace, Path("/proc/thread-self/ns/net"))
    return _asked()


def _asked() -> dict[int, int]:
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _SOCK_DIAG) as asker:
        asker.settimeout(_WITHIN)
        body = _ASKED.pack(socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW_PEER, *(2 * (_ALL_STATES,)))
        size = _HEAD.size + len(body)
        asker.send(_HEAD.pack(size, _BY_FAMILY, _REQUEST | _DUMP, 1, 0) + body)
        found: dict[int, int] = {}
        while True:
            for kind, message in _messages(asker.recv(1 << 17)):
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    error = -struct.unpack_from("=i", message)[0]
                    raise OSError(error, os.strerror(error), "sock_diag")
                inode, peer = _joined(message)
                if peer:
                    found[inode] = peer


def _messages(packet: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEAD.size <= len(packet):
        size, kind, *_ = _HEAD.unpack_from(packet, at)
        yield kind, packet[at + _HEAD.size : at + size]
        at += size + -size % 4


def _joined(message: bytes) -> tuple[int, int]:
    """Return the inodes of a socket and of its peer; 0: it has none."""
    inode = _SOCKET.unpack_from(message)[3]
    at = _SOCKET.size
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == _PEER:
            return inode, struct.unpack_from("=I", message, at + _ATTRIBUTE.size)[0]
        at += size + -size % 4
    return inode, 0
