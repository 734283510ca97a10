"""`refengine serve`: an engine and its HTTP side, from start to a clean end."""

from __future__ import annotations

import contextlib
import ipaddress
import queue
import signal
import sys
import time
from collections.abc import Generator
from enum import Enum
from types import FrameType

from ..base.clock import Clock, monotonic
from ..engine import Engine
from ..engine.settings import EngineSettings
from .front_ends.front_ends import FrontEnds
from .http_side import HttpSide, InProcess, ServeOptions
from .service import DRAIN_CUT_SHORT, DRAIN_OVER

_CHECK_EVERY = 0.5  # seconds between two checks whether the engine has failed for good
_LEAVE_WITHIN = 2.0
"""Seconds for the last responses to go out, and for the HTTP side to end after its stop."""
_FAILED = 70


class StopRequested(BaseException):
    """A signal to stop came before the engine had started."""


def serve(settings: EngineSettings, options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT, then 0: nothing is left behind (SPEC L1).

    From the first signal on new requests are refused with 503, and open ones have the drain's
    seconds to finish (SPEC E6); then, or at a second signal, they end with an error that says so.
    Returns 70 if the engine or the HTTP side has ended for good by itself (SPEC E7).

    Raises:
        EngineFailed: a part of the engine did not start.
        OSError: it cannot listen at that address.
    """
    events = _Events()
    with events.handling_signals(), contextlib.ExitStack() as undo:
        try:
            http = _http_side(settings, options, events)
            undo.callback(http.close, _LEAVE_WITHIN)
            http.start()
            _print_address(http.address, options)
            return _serve(settings, http, events, options.drain)
        except StopRequested:
            return 0
        finally:
            events.starting = False


def _http_side(settings: EngineSettings, options: ServeOptions, events: _Events) -> HttpSide:
    if options.front_ends > 1:
        return FrontEnds(options, settings, events.idle, events.ended)
    return InProcess(options, events.idle, events.ended)


def _serve(settings: EngineSettings, http: HttpSide, events: _Events, drain: float) -> int:
    began = time.monotonic()
    with Engine(settings) as engine:
        events.starting = False
        http.attach(engine)
        if sys.stderr.isatty():
            parts = ", ".join(engine.parts() | http.parts())
            print(f"ready in {time.monotonic() - began:.1f} s: {parts}", file=sys.stderr)
        if cause := _wait_for_a_signal(engine, events):
            print(f"refengine serve: {cause}", file=sys.stderr)
            return _FAILED
        return _drain(http, events, drain)


def _wait_for_a_signal(engine: Engine, events: _Events) -> str:
    """Wait for a signal, and return ""; or return why the server cannot go on."""
    while (event := events.wait(_CHECK_EVERY)) is not _Event.SIGNAL:
        if event is _Event.ENDED:
            return "the HTTP server has ended by itself"
        if failure := engine.failure():
            return str(failure)
    return ""


def _drain(http: HttpSide, events: _Events, seconds: float) -> int:
    http.drain()
    event = events.wait(seconds)
    again = event is _Event.SIGNAL
    if event is not _Event.ENDED:
        http.cut(DRAIN_CUT_SHORT if again else DRAIN_OVER.format(seconds=seconds))
        event = events.wait(_LEAVE_WITHIN, but=_Event.SIGNAL)
    http.stop()
    return _FAILED if event is _Event.ENDED else 0


class _Event(Enum):
    SIGNAL = "SIGTERM or SIGINT"
    IDLE = "nothing is open, and nothing new is taken"
    ENDED = "the HTTP side has ended"


class _Events:
    """Events that the main thread waits for: signals, and those of the HTTP side."""

    def __init__(self, clock: Clock = monotonic) -> None:
        self.starting = True
        """While this is True a signal raises `StopRequested` in the main thread."""
        self._clock = clock
        self._came: queue.SimpleQueue[_Event] = queue.SimpleQueue()  # put is safe in a handler

    @contextlib.contextmanager
    def handling_signals(self) -> Generator[None]:
        """Handle both signals here until the context is left."""
        before = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def idle(self) -> None:
        """Report that no request is open any more; from any thread."""
        self._came.put(_Event.IDLE)

    def ended(self) -> None:
        """Report that the HTTP side has ended; from any thread."""
        self._came.put(_Event.ENDED)

    def wait(self, seconds: float, but: _Event | None = None) -> _Event | None:
        """Return the next event other than `but`; None if none comes within so many seconds."""
        end = self._clock() + seconds
        with contextlib.suppress(queue.Empty):
            while True:
                event = self._came.get(timeout=max(0.0, end - self._clock()))
                if event is not but:
                    return event
        return None

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.starting:
            self.starting = False
            raise StopRequested
        self._came.put(_Event.SIGNAL)


def _print_address(address: str, options: ServeOptions) -> None:
    print(f"listening at {address}", flush=True)
    try:
        loopback = ipaddress.ip_address(options.host).is_loopback
    except ValueError:
        loopback = options.host == "localhost"
    if not loopback and not options.key:
        warning = "reachable from elsewhere, and without --api-key-file by anybody"
        print(f"refengine serve: {address} is {warning}", file=sys.stderr)
