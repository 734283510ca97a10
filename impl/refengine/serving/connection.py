"""A connection that does not say in time what it wants is closed, as are too many (SPEC S4)."""

from __future__ import annotations

import asyncio
import time
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle


class Connection(H11Protocol):
    """uvicorn's, which waits for the head of a request without end once a part of it has come.

    It takes as many connections as there are descriptors, too. Here the one that has been idle for
    longest makes room for a new one; where none is idle, what is asked over the new one is refused.
    """

    most = 1 << 30
    """Open at a time, idle ones included."""
    spare = 64
    """More than those, all of them busy, for refusals in words; others are cut off without."""

    patience = 5.0
    """Seconds between two looks; at the third that finds no new request it is closed."""

    _watch: asyncio.TimerHandle | None = None
    _seen: object = None
    """The last request."""
    _looks = 0
    """How often in a row that was over, and no other was there."""

    _since = 0.0
    """When it came, or was last found to be busy."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """From now on it is watched."""
        super().connection_made(transport)
        self._since = time.monotonic()
        if len(self.connections) > self.most:
            self._make_room()
        self._look()

    def _make_room(self) -> None:
        others = cast("set[Connection]", self.connections) - {self}
        idle = [each for each in others if each.is_idle]
        if idle:
            min(idle, key=lambda each: each._since).cut()
        elif len(self.connections) > self.most + self.spare:
            self.cut()

    def cut(self) -> None:
        """Close it at once, whatever is still to be sent."""
        self.connections.discard(self)
        self.transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether nothing that was asked over it is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to watch."""
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        cycle, waits = self.cycle, self.is_idle
        if not waits:
            self._since = time.monotonic()
        self._looks = self._looks + 1 if waits and cycle is self._seen else 0
        self._seen = cycle
        if self._looks > 2:
            self.timeout_keep_alive_handler()
        else:
            self._watch = self.loop.call_later(self.patience, self._look)
