"""`refengine serve`: an engine and its HTTP server, from start to an end in good order."""

from __future__ import annotations

import contextlib
import ipaddress
import queue
import signal
import sys
import time
from collections.abc import Generator
from types import FrameType

from ..engine import Engine
from ..engine.settings import EngineSettings
from .app import application
from .server import Server
from .service import Service

_LEAVING = 5.0
"""Seconds for the last answers to go out once the engine is closed."""


class Asked(BaseException):
    """A signal asked for the end before the engine had started."""


def serve(
    settings: EngineSettings, host: str, port: int, *, model: str, key: bytes, drain: float
) -> int:
    """Serve until SIGTERM or SIGINT, then 0: nothing is left behind (SPEC L1).

    From the first signal on nothing new is taken, and what is open has `drain` seconds to finish;
    then, or at a second signal, it ends with an error that says so.

    Raises:
        EngineFailed: a part of the engine did not start.
        OSError: it cannot listen at that address.
    """
    signals = _Signals()
    service = Service(model)
    with signals.taken():
        app, patience = application(service, key), drain + _LEAVING
        server = Server(app, host, port, patience=patience, ended=signals.server_ended)
        try:
            server.start()
            _say_where(server.address, host, key)
            return _serve(settings, service, server, signals, drain)
        except Asked:
            return 0
        finally:
            signals.starting = False
            server.close(_LEAVING)


def _serve(
    settings: EngineSettings, service: Service, server: Server, signals: _Signals, drain: float
) -> int:
    began = time.monotonic()
    with Engine(settings) as engine:
        signals.starting = False
        service.engine = engine
        if sys.stderr.isatty():
            parts = ", ".join(engine.parts())
            print(f"ready in {time.monotonic() - began:.1f} s: {parts}", file=sys.stderr)
        if not signals.wait(None):
            print("refengine serve: the HTTP server has ended by itself", file=sys.stderr)
            return 70
        server.stop()
        signals.wait(drain)
    return 0


class _Signals:
    """SIGTERM and SIGINT, and the server's end, as what the main thread waits for."""

    def __init__(self) -> None:
        self.starting = True
        """Until this is False a signal raises `Asked` in the main thread."""
        self._came: queue.SimpleQueue[bool] = queue.SimpleQueue()  # put is safe in a handler

    @contextlib.contextmanager
    def taken(self) -> Generator[None]:
        """Both signals come here until the context is left."""
        before = {
            number: signal.signal(number, self._asked) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def server_ended(self) -> None:
        """The server's thread is over."""
        self._came.put(False)

    def wait(self, seconds: float | None) -> bool:
        """Until a signal (True), the server's end (False), or so many seconds (False)."""
        try:
            return self._came.get(timeout=seconds)
        except queue.Empty:
            return False

    def _asked(self, _number: int, _frame: FrameType | None) -> None:
        if self.starting:
            self.starting = False
            raise Asked
        self._came.put(True)


def _say_where(address: str, host: str, key: bytes) -> None:
    print(f"listening at {address}", flush=True)
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback and not key:
        warning = "reachable from elsewhere, and without --api-key-file by anybody"
        print(f"refengine serve: {address} is {warning}", file=sys.stderr)
