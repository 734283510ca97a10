"""The HTTP side of a server for its main thread: in this process, or in front ends' processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ..base.security import SocketFactory
from ..engine import Engine
from .app import application
from .server import Server
from .service import Drain, Service

TO_BE_CUT = 1.0  # seconds from the stop until open responses are cut off


@dataclass(frozen=True)
class ServeOptions:
    """Options of `refengine serve` about its HTTP side."""

    host: str
    port: int
    model: str
    key: bytes = field(repr=False)
    drain: float
    front_ends: int = 1


class HttpSide(Protocol):
    """Answers from `start` on; the other methods are called in this order."""

    address: str

    def start(self) -> None:
        """Begin to answer that the engine is starting."""
        ...

    def attach(self, engine: Engine) -> None:
        """Serve with this engine, which has started."""
        ...

    def parts(self) -> dict[str, int]:
        """Return the live processes' ids by name, without this one."""
        ...

    def drain(self) -> None:
        """Refuse new requests; `idle` is called when no request is open any more."""
        ...

    def cut(self, cause: str) -> None:
        """End open requests with that cause; `idle` is called when that is done."""
        ...

    def stop(self) -> None:
        """Begin to end."""
        ...

    def close(self, seconds: float) -> None:
        """End, within so many seconds. Idempotent."""
        ...


class InProcess:
    """HTTP server in this process, on a thread of its own.

    Raises:
        OSError: it cannot listen there.
    """

    def __init__(
        self, options: ServeOptions, idle: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self._service = Service(options.model, drain=Drain(options.drain, idle))
        app = application(self._service, options.key)
        listener = SocketFactory().listen_tcp(options.host, options.port)
        self._server = Server(app, listener, patience=TO_BE_CUT, ended=ended)
        self.address = self._server.address

    def start(self) -> None:
        """See `HttpSide`."""
        self._server.start()

    def attach(self, engine: Engine) -> None:
        """See `HttpSide`."""
        self._service.engine = engine

    def parts(self) -> dict[str, int]:
        """See `HttpSide`."""
        return {}

    def drain(self) -> None:
        """See `HttpSide`."""
        self._service.drain.begin()

    def cut(self, cause: str) -> None:
        """See `HttpSide`."""
        self._service.drain.cut(cause)

    def stop(self) -> None:
        """See `HttpSide`."""
        self._server.stop()

    def close(self, seconds: float) -> None:
        """See `HttpSide`."""
        self._server.close(seconds)
