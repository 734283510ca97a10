"""uvicorn on a thread of its own, with limits on its connections (SPEC S4).

The main thread belongs to the engine, or to the link to it.
"""

from __future__ import annotations

import asyncio
import math
import resource
import socket
import time
from collections.abc import Callable
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from ..base.cleanup import ServingThread
from ..base.security import is_ipv6

_KEEP_ALIVE = 5  # seconds that a connection may be idle between two requests
_AT_ONCE = 64
"""Connections that are accepted before any of them is counted; asyncio takes a backlog's worth."""


class Connection(H11Protocol):
    """uvicorn's connection, with a deadline for a request's head and a limit on their number.

    uvicorn's own waits for the rest of a request's head without end, and takes as many connections
    as there are descriptors. Here the connection that has been idle for longest is closed to make
    room for a new one; if none is idle, requests over the new one are refused.
    """

    most = 1 << 30
    """Maximum number of open connections, idle ones included."""
    spare = 64
    """Number of connections beyond `most`, all busy, that get a refusal; others are cut off."""

    patience = 5.0
    """Seconds between two checks; it is closed at the third that finds no new request."""

    _watch: asyncio.TimerHandle | None = None
    _seen: object = None
    """Last request."""
    _looks = 0
    """Number of checks in a row that found that request over and no other."""

    _since = 0.0
    """Time at which it was opened, or last found busy."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to watch the connection, within the limit."""
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
        """Close it at once, even with unsent data."""
        self.connections.discard(self)
        self.transport.abort()

    @property
    def is_idle(self) -> bool:
        """True if no request over it is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching the connection."""
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


def address_of(listener: socket.socket) -> str:
    """Return the listener's URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if is_ipv6(host) else f"http://{host}:{port}"


class Server:
    """HTTP server at a listener, which it owns.

    Args:
        patience: seconds from `stop` until open responses are cut off.
        connections: maximum number open; by default half of the descriptors of a process.
        ended: called from the thread when it ends, for whatever reason.
    """

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        *,
        patience: float,
        ended: Callable[[], None],
        connections: int | None = None,
    ) -> None:
        self._listener, self._ended = listener, ended
        self.address = address_of(listener)
        # However many connections strangers open, the engine keeps its descriptors (SPEC S4).
        most = connections or resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=type("Bounded", (Connection,), {"most": most}),
            backlog=_AT_ONCE,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=math.ceil(patience),
            limit_concurrency=most + 1,
        )
        self._uvicorn = uvicorn.Server(config)
        self._thread = ServingThread(self._run, name="refengine:http")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def answers(self) -> bool:
        """True if it takes connections."""
        return self._uvicorn.started

    def stop(self) -> None:
        """Take no new connection; open responses are finished."""
        self._uvicorn.should_exit = True

    def close(self, seconds: float) -> bool:
        """Stop, and wait up to so many seconds; return whether it has ended."""
        self.stop()
        if not self._thread.prevent():
            self._thread.join(seconds)
        self._listener.close()
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._uvicorn.run(sockets=[self._listener])
        finally:
            self._ended()
