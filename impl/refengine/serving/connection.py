"""A connection that does not say in time what it wants is closed (SPEC S4)."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle


class Connection(H11Protocol):
    """uvicorn's, which waits for the head of a request without end once a part of it has come."""

    patience = 5.0
    """Seconds between two looks; at the third that finds no new request it is closed."""

    _watch: asyncio.TimerHandle | None = None
    _seen: object = None
    """The last request."""
    _looks = 0
    """How often in a row that was over, and no other was there."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """From now on it is watched."""
        super().connection_made(transport)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to watch."""
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        waits = cycle is None or cycle.response_complete
        self._looks = self._looks + 1 if waits and cycle is self._seen else 0
        self._seen = cycle
        if self._looks > 2:
            self.timeout_keep_alive_handler()
        else:
            self._watch = self.loop.call_later(self.patience, self._look)
