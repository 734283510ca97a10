"""uvicorn on a thread of its own: the main thread is there for the engine, or the way to it."""

from __future__ import annotations

import math
import resource
import socket
import threading
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from ..security import is_ipv6
from .connection import Connection

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
