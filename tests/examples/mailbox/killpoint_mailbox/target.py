"""Two mailboxes over a Unix socket: one that tells of a dead poster, one that does not."""

from __future__ import annotations

import contextlib
import select
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

_MOST = 64 * 1024
"""Bytes of a letter."""


class _Owner:
    """The owner's end: it listens, and reads whichever poster has written."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="mailbox-")) / "s"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(self.path))
        self.listener.listen(16)
        self.posters: list[socket.socket] = []


class SocketMailbox:
    """The target ``socket-mailbox``."""

    name = "socket-mailbox"
    version = "1.0"
    capabilities = frozenset({"mailbox"})
    preloads = ()
    tells_of_deaths = True

    def load(self) -> None:
        """Have everything imported: it is."""

    def classify(self, error: BaseException) -> str:
        """Return the word for an exception."""
        if isinstance(error, TimeoutError):
            return "timeout"
        return "peer-died" if isinstance(error, ConnectionError) else "error"

    def mailbox_open(self) -> _Owner:
        """Listen at a path of the owner's own."""
        return _Owner()

    def mailbox_handle(self, end: _Owner) -> bytes:
        """Return the path."""
        return str(end.path).encode()

    def mailbox_connect(self, handle: bytes) -> socket.socket:
        """Connect to the owner."""
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        end.connect(handle.decode())
        return end

    def mailbox_post(self, end: socket.socket, letter: bytes) -> None:
        """Write one packet."""
        end.send(letter)

    def mailbox_take(self, end: _Owner, timeout: float) -> bytes:
        """Return the next packet of any poster."""
        until = time.monotonic() + timeout
        while True:
            ready, _, _ = select.select(
                [end.listener, *end.posters], [], [], max(0.0, until - time.monotonic())
            )
            if not ready:
                raise TimeoutError(f"no letter within {timeout:g} s")
            for one in ready:
                if one is end.listener:
                    end.posters.append(end.listener.accept()[0])
                    continue
                with contextlib.suppress(ConnectionResetError):
                    letter = one.recv(_MOST)
                    if letter:
                        return letter
                end.posters.remove(one)
                one.close()
                if self.tells_of_deaths:
                    raise ConnectionError("a poster has died")

    def mailbox_close(self, end: Any) -> None:
        """Close an end; the owner's takes its path with it."""
        if not isinstance(end, _Owner):
            end.close()
            return
        for each in (end.listener, *end.posters):
            each.close()
        end.path.unlink()
        end.path.parent.rmdir()


class CarelessMailbox(SocketMailbox):
    """The target ``careless-mailbox``: it forgets a dead poster, and waits on."""

    name = "careless-mailbox"
    tells_of_deaths = False
