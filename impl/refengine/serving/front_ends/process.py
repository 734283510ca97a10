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

from ...base.fds import Fd
from ...clock import Clock, monotonic
from ...engine.settings import EngineSettings
from ...executor.process import send_signal_at_hangup, set_title
from ...malformed import Malformed
from ..app import application
from ..draining import Drain
from ..http_side import TO_BE_CUT
from ..server import Server
from ..service import Service
from .link import Link
from .messages import Cancel, Pulse, Ready, State, Submit, encode, to_front_end
from .remote_engine import RemoteEngine

_PULSE = 0.25  # seconds between two signs of life
_TO_ANSWER = 0.02  # seconds between two looks whether the HTTP server has come up
_UNTAKEN = 32 << 20  # bytes that the engine's process may leave untaken
_LEAVES = 1.5  # seconds for the HTTP server to end
_FAILED = 70


@dataclass(frozen=True)
class Birth:
    """What a front end is told at its start."""

    name: str
    life: int
    parent: int
    settings: EngineSettings
    model: str
    key: bytes = field(repr=False)
    drain: float


def be_front_end(
    birth: Birth, end: socket.socket, death: Connection, listener: socket.socket
) -> None:
    """In the child: answer until told to end; gone at once when the parent is, even if stopped.

    Signals that end a server are its parent's to handle, which may be sent them with the whole
    process group: it tells its front ends what to do.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    send_signal_at_hangup(death.fileno(), os.getpid(), signal.SIGKILL)
    if os.getppid() != birth.parent:
        os._exit(_FAILED)
    set_title(birth.name)
    os.umask(0o077)
    FrontEndProcess(birth, Link(end), listener).serve()


class FrontEndProcess:
    """The main thread turns around the link; another one is the HTTP server's."""

    def __init__(
        self, birth: Birth, link: Link, listener: socket.socket, clock: Clock = monotonic
    ) -> None:
        self._name, self._link, self._clock = birth.name, link, clock
        self._bell = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._engine = RemoteEngine(birth.settings, self._send, clock)
        self._drain = Drain(birth.drain, self._ring)
        self._service = Service(
            birth.model,
            drain=self._drain,
            of_all=lambda: self._engine.state.samples,
            beside=self._about,
        )
        app = application(self._service, birth.key)
        self._server = Server(app, listener, patience=TO_BE_CUT, ended=self._server_ended)
        self._has_answered = False
        self._server_is_over = False
        self._leaving = False
        self._beat_at = float("-inf")
        self._samples: Any = None

    def serve(self) -> None:
        """Until told to end."""
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
            self._ring()
        return True

    def _about(self) -> dict[str, Any]:
        others = [
            {"name": each.name, "pid": each.pid, "state": each.state, "open": each.open}
            for each in self._engine.state.front_ends
        ]
        return {"front_end": self._name, "front_ends": others}

    def _server_ended(self) -> None:
        self._server_is_over = True
        self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._bell.fileno(), 1)

    # -- the main thread ------------------------------------------------------------------------

    def _turn(self) -> None:
        seconds = _PULSE if self._has_answered else _TO_ANSWER
        poller = select.poll()
        out = select.POLLOUT if self._link.waiting else 0
        poller.register(self._link.fileno(), select.POLLIN | out)
        poller.register(self._bell.fileno(), select.POLLIN)
        ready = dict(poller.poll(math.ceil(seconds * 1000)))
        if self._bell.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._bell.fileno())
            self._beat_at = float("-inf")
        if self._link.fileno() in ready:
            self._link.flush()
            self._hear()
        if self._server_is_over and not self._leaving:
            raise SystemExit(_FAILED)
        self._tell()
        self._engine.tick()

    def _hear(self) -> None:
        try:
            frames = self._link.take()
        except EOFError:
            os._exit(_FAILED)  # without the engine's process there is nothing to serve
        for frame in frames:
            with contextlib.suppress(Malformed):
                message = to_front_end(frame)
                self._engine.heard(message)
                if isinstance(message, State):
                    self._follow(message)

    def _follow(self, state: State) -> None:
        """Do as the whole server does."""
        if state.phase == "starting":
            return
        self._service.engine = self._engine
        if state.phase != "serving" and not self._drain.has_begun:
            self._drain.begin()
        if state.phase in ("cut", "leaving"):
            self._drain.cut(state.cause)
        self._leaving = state.phase == "leaving"

    def _tell(self) -> None:
        """That it lives, and how it is."""
        if not self._has_answered and self._server.answers:
            self._has_answered = True
            self._link.send(encode(Ready()))
        now = self._clock()
        if now < self._beat_at + _PULSE or self._link.waiting:
            return
        self._beat_at = now
        samples = self._service.metrics.samples()
        news, self._samples = (None if samples == self._samples else samples), samples
        self._link.send(encode(Pulse(self._drain.open, self._drain.has_begun, news)))
