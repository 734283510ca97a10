"""Where neighbours connect: strangers are heard for a bounded time, in bounded memory (S3, S4)."""

import os
import select
import socket
from collections import deque
from dataclasses import dataclass, field

from ..base.cleanup import append_atomically
from ..base.clock import Clock
from ..base.security import Keys, SocketFactory
from .handshake import HELLO_BYTES, PROOF_BYTES, Caller, Listening, verdict
from .link import Across, Link
from .places import Place, way_between

_PENDING_MOST = 64
Expected = tuple[int, int]
"""A rank, and the link (or CONTROL) that it is to connect."""


@dataclass
class _Stranger:
    """A connection that has not proved anything yet."""

    sock: socket.socket
    since: float
    hands: Listening
    heard: list[bytes] = field(default_factory=lambda: list[bytes]())
    welcomed: bool = False


class Door:
    """Listens at one address, for the callers that are `expected` and no others."""

    def __init__(
        self,
        host: str,
        port: int,
        keys: Keys,
        size: int,
        place: Place,
        expected: set[Expected],
        *,
        patience: float,
        sockets: SocketFactory,
        clock: Clock,
    ) -> None:
        self._keys, self._size, self._place = keys, size, place
        self._patience, self._clock = patience, clock
        self._strangers: deque[_Stranger] = deque()
        self._accepted: list[tuple[socket.socket, object]] = []
        self.expected = expected
        self.came: dict[Expected, Link] = {}
        self._listener = sockets.listen_tcp(host, port)  # last: whoever has this closes it

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._listener.getsockname()[1]

    @property
    def missing(self) -> set[Expected]:
        """Who has not come."""
        return self.expected - self.came.keys()

    def wait(self, seconds: float | None, *others: int) -> None:
        """Serve one round; returns early if one of the others hangs up."""
        poller = select.poll()
        for fd in (self._listener.fileno(), *(s.sock.fileno() for s in self._strangers)):
            poller.register(fd, select.POLLIN)
        for fd in others:
            poller.register(fd, select.POLLRDHUP)
        soon = [seconds] if seconds is not None else []
        if self._strangers:
            soon.append(self._strangers[0].since + self._patience - self._clock())
        poller.poll(int(max(0.0, min(soon)) * 1000) + 1 if soon else None)
        self._accept()
        for stranger in list(self._strangers):
            if not self._hear(stranger):
                self._strangers.remove(stranger)

    def close(self) -> None:
        """Nobody else; what came stays."""
        self._listener.close()
        for stranger in self._strangers:
            stranger.sock.close()
        while self._accepted:
            self._accepted.pop()[0].close()

    def drop(self) -> None:
        """Close what came, too."""
        self.close()
        for link in self.came.values():
            link.close()

    def _accept(self) -> None:
        while True:
            if len(self._strangers) >= _PENDING_MOST:
                self._strangers[0].sock.close()  # the one that has had the longest
                self._strangers.popleft()
            try:
                append_atomically(self._accepted, self._listener.accept)
            except (BlockingIOError, ConnectionAbortedError):
                return
            sock, _ = self._accepted[0]
            sock.setblocking(False)
            hands = Listening(self._keys, os.getpid(), self._place)
            self._strangers.append(_Stranger(sock, self._clock(), hands))
            self._accepted.clear()

    def _hear(self, stranger: _Stranger) -> bool:
        """Whether it is still one."""
        wanted = PROOF_BYTES if stranger.welcomed else HELLO_BYTES
        have = sum(map(len, stranger.heard))
        try:
            append_atomically(stranger.heard, stranger.sock.recv, wanted - have)
        except BlockingIOError:
            if self._clock() < stranger.since + self._patience:
                return True
            stranger.sock.close()
            return False
        except OSError:
            stranger.heard.append(b"")
        said = b"".join(stranger.heard)
        if not stranger.heard[-1]:
            stranger.sock.close()
            return False
        if len(said) < wanted:
            return True
        stranger.heard.clear()
        return self._judge(stranger, said)

    def _judge(self, stranger: _Stranger, said: bytes) -> bool:
        if not stranger.welcomed:
            welcome = stranger.hands.welcome(said)
            stranger.welcomed = welcome is not None and _say(stranger.sock, welcome)
            if not stranger.welcomed:
                stranger.sock.close()
            return stranger.welcomed
        caller = stranger.hands.caller
        if caller is None or not stranger.hands.proves(said):
            stranger.sock.close()
            return False
        reason = self._objection(caller)
        if _say(stranger.sock, verdict(reason)) and not reason:
            across = Across(caller.rank, caller.pid, caller.place)
            link = Link(stranger.sock, across, stranger.hands.session)
            self.came[caller.rank, caller.link] = link
        else:
            stranger.sock.close()
        return False

    def _objection(self, caller: Caller) -> str:
        who = caller.rank, caller.link
        if caller.size != self._size:
            return f"it says that there are {caller.size} ranks, here are {self._size}"
        if who in self.came:
            return "another party already has it"
        if who not in self.expected:
            return "unknown here"
        try:
            way_between(caller.place, self._place)
        except ValueError as error:
            return str(error)
        return ""


def _say(sock: socket.socket, what: bytes) -> bool:
    """Small and first: the kernel always has room for it."""
    try:
        return sock.send(what) == len(what)
    except OSError:
        return False
