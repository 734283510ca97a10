"""The front end's thread: sockets, streams and time around the book of requests."""

import contextlib
import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import zmq

from ..base.fds import Fd
from ..clock import Clock, monotonic
from ..coordinator import Addresses, FrontEndLink, FrontEndWave
from ..malformed import Dropped, Malformed
from . import wire
from .errors import EngineClosed
from .front_end import Connect, Deed, Disconnect, Evict, FrontEnd, Give, Send
from .stream import News, Stream, is_last

_log = logging.getLogger(__name__)
_TICK = 0.25  # seconds between two looks at who does not get on
_TURNS_WITHIN = 2.0  # seconds; a thread that has not turned for longer is not alive
_AT_ONCE = 256  # messages of one replica before the others have their turn
_TO_END = 2.0

Answer = TypeVar("Answer")
Act = Callable[[FrontEnd, float], list[Deed]]


class Desk:
    """Any thread asks `do` to have something done with the book; this one thread does the rest."""

    def __init__(
        self, book: FrontEnd, evict: Callable[[Evict], None], clock: Clock = monotonic
    ) -> None:
        self._book, self._evict, self._clock = book, evict, clock
        self._lock = threading.RLock()
        self._deeds: deque[Deed] = deque()
        self._streams: dict[str, Stream] = {}
        self._bell = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._context: zmq.Context[Any] = zmq.Context()
        self._sockets: dict[str, Any] = {}
        self._poller = zmq.Poller()
        self._poller.register(self._bell.fileno(), zmq.POLLIN)
        self._wave = FrontEndWave()
        self._waves_before = 0
        self._met: list[Addresses | None] = []
        self._link: FrontEndLink | None = None
        self._dropped = Dropped(_log)
        self._stopping = False
        self._turned = clock()
        self._thread = threading.Thread(target=self._run, name="engine front end", daemon=True)

    def start(self) -> None:
        """Begin to turn."""
        self._thread.start()

    def do(self, act: Act) -> None:
        """Have it done now; what follows from it is done soon, in order. Raises what `act` does."""
        with self._lock:
            self._deeds.extend(act(self._book, self._clock()))
        self._ring()

    def ask(self, question: Callable[[FrontEnd, float], Answer]) -> Answer:
        """What the book says."""
        with self._lock:
            return question(self._book, self._clock())

    def open(self, stream: Stream, act: Act) -> None:
        """The same for a new request: what comes of it goes to this stream."""
        with self._lock:
            deeds = act(self._book, self._clock())
            self._streams[stream.request_id] = stream
            self._deeds.extend(deeds)
        self._ring()

    def meet(self, addresses: Addresses | None) -> None:
        """There is another coordinator, or none."""
        self._met.append(addresses)
        self._ring()

    @property
    def wave(self) -> int:
        """The data-parallel replicas', counted on over all coordinators."""
        return self._waves_before + self._wave.wave

    def quiet(self) -> float:
        """Seconds since the coordinator gave a sign of life; 0 without one."""
        link = self._link
        return 0.0 if link is None or self._met else link.quiet()

    @property
    def alive(self) -> bool:
        """Whether the thread turns."""
        return self._thread.is_alive() and self._clock() - self._turned < _TURNS_WITHIN

    @property
    def has_failed(self) -> bool:
        """Whether the thread has ended, though nobody asked for it."""
        return bool(self._thread.ident) and not self._thread.is_alive() and not self._stopping

    @property
    def closed(self) -> bool:
        """Whether it takes nothing any more."""
        return self._stopping

    def close(self) -> None:
        """Have every open request end, and the thread. Idempotent."""
        if not self._stopping:
            self.do(lambda book, _: book.close())
        self._stopping = True
        self._ring()
        if self._thread.ident is None:
            self._let_go()  # it never turned
        elif threading.current_thread() is not self._thread:
            self._thread.join(_TO_END)

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._bell.fileno(), 1)

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping or self._deeds:
                self._turn()
        except BaseException:
            _log.exception("the front end's thread has failed")
        finally:
            self._let_go()

    def _turn(self) -> None:
        ready = dict(self._poller.poll(math.ceil(_TICK * 1000)))
        self._turned = self._clock()
        if self._bell.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._bell.fileno())
        for name, socket in self._sockets.items():
            if socket in ready:
                self._hear(name, socket)
        self._hear_coordinator()
        with self._lock:
            self._deeds.extend(self._book.tick(self._clock()))
        while self._deeds:
            self._carry_out(self._deeds.popleft())

    def _hear(self, name: str, socket: Any) -> None:
        for _ in range(_AT_ONCE):
            try:
                message = wire.from_core(socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return
            except Malformed:
                self._dropped.add(f"what came from {name}")
                continue
            with self._lock:
                self._deeds.extend(self._book.heard(name, message, self._clock()))

    def _carry_out(self, deed: Deed) -> None:
        match deed:
            case Give(request_id, news):
                self._give(request_id, news)
            case Send(name, message):
                if name in self._sockets:
                    self._sockets[name].send(wire.encode(message))
            case Connect(name, address):
                self._connect(name, address)
            case Disconnect(name):
                self._disconnect(name)
            case Evict():
                self._evict(deed)

    def _give(self, request_id: str, news: News) -> None:
        with self._lock:
            stream = self._streams[request_id]
            if is_last(news):
                del self._streams[request_id]
        try:
            stream.put(news)
        except Exception:
            _log.exception("a listener of request %s has failed", request_id)

    def _connect(self, name: str, address: str) -> None:
        socket: Any = self._context.socket(zmq.DEALER)
        for option in (zmq.LINGER, zmq.SNDHWM, zmq.RCVHWM):
            socket.setsockopt(option, 0)
        socket.connect(address)
        self._sockets[name] = socket
        self._poller.register(socket, zmq.POLLIN)

    def _disconnect(self, name: str) -> None:
        socket = self._sockets.pop(name, None)
        if socket is not None:
            self._poller.unregister(socket)
            socket.close()

    def _hear_coordinator(self) -> None:
        while self._met:
            addresses = self._met[0]
            self._leave_coordinator()
            self._waves_before, self._wave = self.wave, FrontEndWave()
            if addresses is not None:
                self._link = FrontEndLink(addresses, self._clock)
            del self._met[0]  # only now: whoever asks how quiet it is means this one
        while self._link is not None and (state := self._link.hear()) is not None:
            self._wave.hear(state)

    def _leave_coordinator(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _let_go(self) -> None:
        """Nobody is left waiting, whatever the thread ended of."""
        with self._lock:
            streams = list(self._streams.values())
        for stream in streams:
            with contextlib.suppress(Exception):
                stream.put(EngineClosed(f"request {stream.request_id}"))
        self._leave_coordinator()
        self._context.destroy(linger=0)
