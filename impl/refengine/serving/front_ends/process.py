"""A front end's process: an HTTP server, and the link to the engine's process."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from ...base.clock import Clock, monotonic
from ...base.fds import Fd
from ...base.frame_decoding import Malformed
from ...engine.settings import EngineSettings
from ...executor.process import send_signal_at_hangup, set_title
from ..app import application
from ..http_side import TO_BE_CUT
from ..server import Server
from ..service import Drain, Service
from .link import Link
from .protocol import Cancel, Heartbeat, Ready, State, Submit, decode_to_front_end, encode
from .remote_engine import RemoteEngine

_HEARTBEAT = 0.25  # seconds between two heartbeats
_TO_ANSWER = 0.02  # seconds between two checks whether the HTTP server has come up
_UNTAKEN = 32 << 20  # bytes that the engine's process may leave unread
_LEAVES = 1.5  # seconds for the HTTP server to end
_FAILED = 70


@dataclass(frozen=True)
class FrontEndInit:
    """Arguments of a front end's process."""

    name: str
    life: int
    parent: int
    settings: EngineSettings
    model: str
    key: bytes = field(repr=False)
    drain: float


def front_end_main(
    init: FrontEndInit, end: socket.socket, death: Connection, listener: socket.socket
) -> None:
    """Serve, in the child, until the parent ends it; killed with the parent, even if stopped.

    Signals that end a server, which may be sent to the whole process group, are ignored here: the
    parent handles them, and directs its front ends.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    send_signal_at_hangup(death.fileno(), os.getpid(), signal.SIGKILL)
    if os.getppid() != init.parent:
        os._exit(_FAILED)
    set_title(init.name)
    os.umask(0o077)
    FrontEndProcess(init, Link(end), listener).serve()


class FrontEndProcess:
    """Shell of a front end: the main thread serves the link, another one is the HTTP server's."""

    def __init__(
        self, init: FrontEndInit, link: Link, listener: socket.socket, clock: Clock = monotonic
    ) -> None:
        self._name, self._link, self._clock = init.name, link, clock
        self._wakeup = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._engine = RemoteEngine(init.settings, self._send, clock)
        self._drain = Drain(init.drain, self._wake)
        self._service = Service(
            init.model,
            drain=self._drain,
            totals=lambda: self._engine.state.samples,
            beside=self._about,
        )
        app = application(self._service, init.key)
        self._server = Server(app, listener, patience=TO_BE_CUT, ended=self._server_ended)
        self._has_answered = False
        self._server_is_over = False
        self._leaving = False
        self._heartbeat_at = float("-inf")
        self._samples: Any = None

    def serve(self) -> None:
        """Serve until the phase "leaving"."""
        self._server.start()
        try:
            while not self._leaving:
                self._turn()
        finally:
            self._engine.close()
            self._server.close(_LEAVES)

    # -- from the HTTP server's thread ----------------------------------------------------------

    def _send(self, message: Submit | Cancel) -> bool:
        if self._link.waiting > _UNTAKEN:
            return False
        if not self._link.send(encode(message)):
            self._wake()
        return True

    def _about(self) -> dict[str, Any]:
        others = [
            {"name": each.name, "pid": each.pid, "state": each.state, "open": each.open}
            for each in self._engine.state.front_ends
        ]
        return {"front_end": self._name, "front_ends": others}

    def _server_ended(self) -> None:
        self._server_is_over = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._wakeup.fileno(), 1)

    # -- the main thread ------------------------------------------------------------------------

    def _turn(self) -> None:
        seconds = _HEARTBEAT if self._has_answered else _TO_ANSWER
        poller = select.poll()
        out = select.POLLOUT if self._link.waiting else 0
        poller.register(self._link.fileno(), select.POLLIN | out)
        poller.register(self._wakeup.fileno(), select.POLLIN)
        ready = dict(poller.poll(math.ceil(seconds * 1000)))
        if self._wakeup.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wakeup.fileno())
            self._heartbeat_at = float("-inf")
        if self._link.fileno() in ready:
            self._link.flush()
            self._receive()
        if self._server_is_over and not self._leaving:
            raise SystemExit(_FAILED)
        self._report()
        self._engine.tick()

    def _receive(self) -> None:
        try:
            frames = self._link.take()
        except EOFError:
            os._exit(_FAILED)  # without the engine's process there is nothing to serve
        for frame in frames:
            with contextlib.suppress(Malformed):
                message = decode_to_front_end(frame)
                self._engine.receive(message)
                if isinstance(message, State):
                    self._follow(message)

    def _follow(self, state: State) -> None:
        """Follow the whole server's phase."""
        if state.phase == "starting":
            return
        self._service.engine = self._engine
        if state.phase != "serving" and not self._drain.has_begun:
            self._drain.begin()
        if state.phase in ("cut", "leaving"):
            self._drain.cut(state.cause)
        self._leaving = state.phase == "leaving"

    def _report(self) -> None:
        """Send `Ready` once, and heartbeats when due."""
        if not self._has_answered and self._server.answers:
            self._has_answered = True
            self._link.send(encode(Ready()))
        now = self._clock()
        if now < self._heartbeat_at + _HEARTBEAT or self._link.waiting:
            return
        self._heartbeat_at = now
        samples = self._service.metrics.samples()
        changed, self._samples = (None if samples == self._samples else samples), samples
        self._link.send(encode(Heartbeat(self._drain.open, self._drain.has_begun, changed)))
