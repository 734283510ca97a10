"""The writer's side of its remote readers: connections to them, and their progress (SPEC Q5)."""

import os
import select
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from ..base.cleanup import ReleaseStack
from ..base.event_waiter import EpollWaiter
from ..base.security import Keys
from ..base.serialization import Buffer, total_of, write_message
from ..errors import RankRefused, RefengineError
from ..transport import Gone, Server
from .settings import Settings

GO = b"\2"
"""First body of each session: every reader has arrived. No message begins with this byte."""
COUNT = struct.Struct(">Q")
"""Body that a reader sends: the number of messages that its caller has taken."""


class RemoteFanout:
    """At most `window` messages are untaken by any live reader: a slow one slows the writer.

    The server's thread keeps the counts; the writer's reads them, woken through its waiter.
    """

    def __init__(
        self,
        host: str,
        ranks: Sequence[int],
        window: int,
        keys: Keys,
        settings: Settings,
        waiter: EpollWaiter,
        undo: ReleaseStack,
    ) -> None:
        self.ranks, self._window = tuple(ranks), window
        self.posted = 0
        self._taken = dict.fromkeys(ranks, 0)
        self._arrived: set[int] = set()
        self._news: deque[tuple[int, Gone]] = deque()
        self._refused: deque[RankRefused] = deque()
        self._waiter = waiter
        self._wakeup = undo.acquire(os.close, os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        waiter.watch_wakeup(self._wakeup)
        server = partial(
            Server,
            sockets=settings.sockets,
            clock=settings.clock,
            peer_timeout=settings.peer_timeout,
        )
        self._server = undo.acquire(Server.cut, server, host, 0, ranks, keys, self)
        self.address = self._server.address

    # -- the server's thread ----------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """See `transport.Listener`."""
        self._arrived.add(rank)
        self._wake()

    def message(self, rank: int, body: memoryview) -> None:
        """Take a reader's count, if it is a new one: two of them may change places."""
        if len(body) == COUNT.size:
            self._taken[rank] = max(self._taken[rank], *COUNT.unpack(body))
            self._wake()

    def gone(self, rank: int, how: Gone) -> None:
        """See `transport.Listener`."""
        self._news.append((rank, how))
        self._wake()

    def broken(self, rank: int) -> None:
        """See `transport.ServerListener`: nothing is lost yet."""

    def back(self, rank: int) -> None:
        """See `transport.ServerListener`."""

    def refused(self, rank: int, reason: str) -> None:
        """See `transport.Listener`."""
        self._refused.append(RankRefused(rank, reason))
        self._wake()

    def _wake(self) -> None:
        os.eventfd_write(self._wakeup, 1)

    # -- the writer's -----------------------------------------------------------------------

    def missing(self) -> list[int]:
        """Return the ranks that have not arrived."""
        return sorted(set(self.ranks) - self._arrived)

    def has_news(self) -> bool:
        """Return whether `refusal` or `news` has something to report."""
        return bool(self._refused or self._news)

    def refusal(self) -> RefengineError | None:
        """Return, once, the error that a peer with the key asked for a wrong rank."""
        return self._refused.popleft() if self._refused else None

    def news(self, gone: Callable[[int, Gone], None]) -> None:
        """Call `gone` for each reader that ended since the last time."""
        while self._news:
            rank, how = self._news[0]
            self._taken.pop(rank, None)
            gone(rank, how)
            self._news.popleft()

    def go(self, gone: Callable[[int, Gone], None]) -> None:
        """Send the go to every reader; call `gone` for each that ends later.

        From the waiter, too: a writer may be asleep until a local reader gives a slot back.
        """
        self._waiter.watch(self._wakeup, partial(self.news, gone), select.EPOLLIN | select.EPOLLET)
        self._server.broadcast(0, GO)

    def has_room(self) -> bool:
        """Return whether one more message may be posted."""
        return not self._taken or self.posted - min(self._taken.values()) < self._window

    def post(self, number: int, body: bytearray) -> None:
        """Send message `number` to all; idempotent (SPEC R9)."""
        self._server.broadcast(number + 1, body)
        self.posted = number + 1

    def shutdown(self, seconds: float) -> None:
        """Hand over posted messages, for at most `seconds`, and say goodbye."""
        self._server.close(seconds)


def body_of(buffers: Sequence[Buffer]) -> bytearray:
    """Return a message as one body: a copy, so the caller may change the object at once (Q3)."""
    body = bytearray(total_of([len(b) for b in buffers]) + 1)
    with memoryview(body) as view:
        write_message(buffers, view)
    return body
