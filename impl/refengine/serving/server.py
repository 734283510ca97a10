"""uvicorn on a thread of its own: the main thread is there for the engine, or the way to it."""

from __future__ import annotations

import asyncio
import math
import resource
import socket
import threading
import time
from collections.abc import Callable
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from ..security import is_ipv6


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


_KEEP_ALIVE = 5  # seconds that a connection may be idle between two requests
_AT_ONCE = 64
"""Connections that are accepted before any of them is counted; asyncio takes a backlog's worth."""


def address_of(listener: socket.socket) -> str:
    """Its URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if is_ipv6(host) else f"http://{host}:{port}"


class Server:
    """Answers at a listener, which it owns, once it was started.

    Args:
        patience: seconds after `stop` when what is still being answered is cut off.
        connections: open at a time; by default half of the descriptors that a process may have.
        ended: called from the thread when it has ended, for whatever reason.
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
        # Whatever strangers open, the engine's own processes get their descriptors (SPEC S4).
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
        self._thread = threading.Thread(target=self._run, name="refengine:http", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    @property
    def answers(self) -> bool:
        """Whether it takes connections."""
        return self._uvicorn.started

    def stop(self) -> None:
        """Take no more; what is being answered is answered to its end."""
        self._uvicorn.should_exit = True

    def close(self, seconds: float) -> bool:
        """Stop, and wait so long for its end at most; whether it has ended."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        self._listener.close()
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._uvicorn.run(sockets=[self._listener])
        finally:
            self._ended()
