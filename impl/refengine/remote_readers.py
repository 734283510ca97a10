"""The writer's side of its remote readers: lines to them, and how far each has read (SPEC Q5)."""

import os
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from .encoding import Buffer, put, total_of
from .errors import RankRefused, RefengineError
from .keeping import Undo
from .lines import Gone, Hub
from .security import Keys
from .settings import Settings
from .vigil import EpollVigil

GO = b"\2"
"""The first body of each line: everybody is there. No message begins with this byte."""
COUNT = struct.Struct(">Q")
"""What a reader sends: how many messages its caller has taken."""


class RemoteReaders:
    """At most `window` messages are untaken by any live reader: a slow one slows the writer.

    The hub's thread keeps the counts; the writer's reads them, woken by the vigil's bell.
    """

    def __init__(
        self,
        host: str,
        ranks: Sequence[int],
        window: int,
        keys: Keys,
        settings: Settings,
        vigil: EpollVigil,
        undo: Undo,
    ) -> None:
        self.ranks, self._window = tuple(ranks), window
        self.posted = 0
        self._taken = dict.fromkeys(ranks, 0)
        self._arrived: set[int] = set()
        self._news: deque[tuple[int, Gone]] = deque()
        self._refused: deque[RankRefused] = deque()
        self._bell = undo.made(os.close, os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        vigil.watch_bell(self._bell)
        hub = partial(Hub, sockets=settings.sockets, clock=settings.clock, silence=settings.silence)
        self._hub = undo.made(Hub.cut, hub, host, 0, ranks, keys, self)
        self.address = self._hub.address

    # -- the hub's thread -------------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """See `lines.Listener`."""
        self._arrived.add(rank)
        self._ring()

    def message(self, rank: int, body: memoryview) -> None:
        """A reader's count."""
        if len(body) == COUNT.size:
            (self._taken[rank],) = COUNT.unpack(body)
            self._ring()

    def gone(self, rank: int, how: Gone) -> None:
        """See `lines.Listener`."""
        self._news.append((rank, how))
        self._ring()

    def broken(self, rank: int) -> None:
        """See `lines.HubListener`: nothing is lost yet."""

    def back(self, rank: int) -> None:
        """See `lines.HubListener`."""

    def refused(self, rank: int, reason: str) -> None:
        """See `lines.Listener`."""
        self._refused.append(RankRefused(rank, reason))
        self._ring()

    def _ring(self) -> None:
        os.eventfd_write(self._bell, 1)

    # -- the writer's -----------------------------------------------------------------------

    def missing(self) -> list[int]:
        """Ranks that have not arrived."""
        return sorted(set(self.ranks) - self._arrived)

    def has_news(self) -> bool:
        """Whether `refusal` or `news` has something to tell."""
        return bool(self._refused or self._news)

    def refusal(self) -> RefengineError | None:
        """Somebody who knows the key asked for a wrong rank: told once."""
        return self._refused.popleft() if self._refused else None

    def news(self, gone: Callable[[int, Gone], None]) -> None:
        """Call `gone` for each reader that ended since the last time."""
        while self._news:
            rank, how = self._news[0]
            self._taken.pop(rank, None)
            gone(rank, how)
            self._news.popleft()

    def go(self) -> None:
        """Tell them that everybody is there."""
        self._hub.broadcast(0, GO)

    def has_room(self) -> bool:
        """Whether one more message may be posted."""
        return not self._taken or self.posted - min(self._taken.values()) < self._window

    def post(self, number: int, body: bytearray) -> None:
        """Send message `number` to all; said again, it changes nothing (SPEC R9)."""
        self._hub.broadcast(number + 1, body)
        self.posted = number + 1

    def part(self, seconds: float) -> None:
        """Hand over what was posted, for at most that long, and say goodbye."""
        self._hub.close(seconds)


def body_of(buffers: Sequence[Buffer]) -> bytearray:
    """A message as one body: a copy, so that its caller may change the object at once (Q3)."""
    body = bytearray(total_of([len(b) for b in buffers]) + 1)
    with memoryview(body) as view:
        put(buffers, view)
    return body
