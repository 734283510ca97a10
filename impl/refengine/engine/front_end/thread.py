"""The front end's thread: sockets, streams and time around the request tracker."""

import contextlib
import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import zmq

from ...base.cleanup import ServingThread
from ...base.clock import Clock, monotonic
from ...base.fds import Fd
from ...base.frame_decoding import DropCounter, Malformed
from ...coordinator import Addresses, FrontEndLink, FrontEndWave
from .. import protocol
from ..errors import EngineClosed
from .request_tracker import (
    Action,
    Connect,
    Deliver,
    Disconnect,
    DropReplica,
    RequestTracker,
    Send,
    in_use,
)
from .streams import Stream, StreamEvent, is_last

_log = logging.getLogger(__name__)
_TICK = 0.25  # seconds between two checks of the replicas' progress
_TURNS_WITHIN = 2.0  # seconds; a thread that has not turned for longer is not alive
_MESSAGES_A_TURN = 256  # messages of one replica before the others have their turn
_TO_END = 2.0

Answer = TypeVar("Answer")
Act = Callable[[RequestTracker, float], list[Action]]


class FrontEndThread:
    """Runs the tracker's actions in one thread; any thread may call the tracker by `do`."""

    def __init__(
        self,
        tracker: RequestTracker,
        drop_replica: Callable[[DropReplica], None],
        clock: Clock = monotonic,
    ) -> None:
        self._tracker, self._drop_replica, self._clock = tracker, drop_replica, clock
        self._lock = threading.RLock()
        self._actions: deque[Action] = deque()
        self._streams: dict[str, Stream] = {}
        self._wakeup = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._context: zmq.Context[Any] = zmq.Context()
        self._sockets: dict[str, Any] = {}
        self._poller = zmq.Poller()
        self._poller.register(self._wakeup.fileno(), zmq.POLLIN)
        self._wave = FrontEndWave()
        self._waves_before = 0
        self._new_coordinators: list[Addresses | None] = []
        self._link: FrontEndLink | None = None
        self._dropped = DropCounter(_log)
        self._stopping = False
        self._over = False
        """True once the thread has ended, in whatever way: nobody ends further streams."""
        self._turned = self._looked = clock()
        self._thread = ServingThread(self._run, name="engine front end")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def do(self, act: Act) -> None:
        """Call `act` on the tracker now; its actions follow soon, in order. Raises as `act`."""
        with self._lock:
            self._actions.extend(act(self._tracker, self._clock()))
        self._wake()

    def ask(self, question: Callable[[RequestTracker, float], Answer]) -> Answer:
        """Return the tracker's answer to a question."""
        with self._lock:
            return question(self._tracker, self._clock())

    def open(self, stream: Stream, act: Act) -> None:
        """As `do`, for a new request, whose events go to this stream.

        Raises ValueError if its id is in use: another stream of that id has not had its end yet;
        EngineClosed if the thread has ended, also since its user looked at `closed`.
        """
        with self._lock:
            if self._over:
                raise EngineClosed("submit")
            if stream.request_id in self._streams:
                raise in_use(stream.request_id)
            actions = act(self._tracker, self._clock())
            self._streams[stream.request_id] = stream
            self._actions.extend(actions)
        self._wake()

    def cancel(self, stream: Stream) -> None:
        """Cancel a stream's request, unless the stream has had its end: its id may be another's."""
        with self._lock:
            if self._streams.get(stream.request_id) is stream:
                self._actions.extend(self._tracker.cancel(stream.request_id))
        self._wake()

    def connect_coordinator(self, addresses: Addresses | None) -> None:
        """Switch to another coordinator, or to none."""
        self._new_coordinators.append(addresses)
        self._wake()

    @property
    def wave(self) -> int:
        """Wave of the data-parallel replicas, counted on over all coordinators."""
        return self._waves_before + self._wave.wave

    def coordinator_silent_for(self) -> float:
        """Return the seconds since the coordinator's last message; 0 without a coordinator.

        They end where all that had come by then was heard: while this thread, or the whole process,
        stands still, nobody is silent.
        """
        link = self._link
        if link is None or self._new_coordinators:
            return 0.0
        return max(0.0, self._looked - link.heard_at)

    @property
    def alive(self) -> bool:
        """True if the thread turns."""
        return self._thread.is_alive() and self._clock() - self._turned < _TURNS_WITHIN

    @property
    def has_failed(self) -> bool:
        """True if the thread has ended without a `close`."""
        return bool(self._thread.ident) and not self._thread.is_alive() and not self._stopping

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._stopping

    def close(self) -> None:
        """End every open request, and the thread. Idempotent."""
        if not self._stopping:
            self.do(lambda tracker, _: tracker.close())
        self._stopping = True
        self._wake()
        if self._thread.prevent():
            self._release()
        elif threading.current_thread() is not self._thread:
            self._thread.join(_TO_END)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._wakeup.fileno(), 1)

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping or self._actions:
                self._turn()
        except BaseException:
            _log.exception("the front end's thread has failed")
        finally:
            self._release()

    def _turn(self) -> None:
        began = self._clock()
        ready = dict(self._poller.poll(math.ceil(_TICK * 1000)))
        self._turned = self._clock()
        if self._wakeup.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wakeup.fileno())
        for name, socket in self._sockets.items():
            if socket in ready:
                self._hear(name, socket)
        self._hear_coordinator()
        self._looked = began
        with self._lock:
            self._actions.extend(self._tracker.tick(self._clock()))
        while self._actions:
            self._carry_out(self._actions.popleft())

    def _hear(self, name: str, socket: Any) -> None:
        for _ in range(_MESSAGES_A_TURN):
            try:
                message = protocol.decode_from_core(socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return
            except Malformed:
                self._dropped.add(f"what came from {name}")
                continue
            with self._lock:
                self._actions.extend(self._tracker.receive(name, message, self._clock()))

    def _carry_out(self, action: Action) -> None:
        match action:
            case Deliver(request_id, event):
                self._deliver(request_id, event)
            case Send(name, message):
                if name in self._sockets:
                    self._sockets[name].send(protocol.encode(message))
            case Connect(name, address):
                self._connect(name, address)
            case Disconnect(name):
                self._disconnect(name)
            case DropReplica():
                self._drop_replica(action)

    def _deliver(self, request_id: str, event: StreamEvent) -> None:
        with self._lock:
            stream = self._streams[request_id]
            if is_last(event):
                del self._streams[request_id]
        try:
            stream.put(event)
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
        while self._new_coordinators:
            addresses = self._new_coordinators[0]
            self._leave_coordinator()
            self._waves_before, self._wave = self.wave, FrontEndWave()
            if addresses is not None:
                self._link = FrontEndLink(addresses, self._clock)
            del self._new_coordinators[0]  # only now: until then its silence is not measured
        while self._link is not None and (state := self._link.hear()) is not None:
            self._wave.hear(state)

    def _leave_coordinator(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _release(self) -> None:
        """End all streams that are still open, and close the sockets, however the thread ended."""
        with self._lock:
            self._over = True  # in one step with the list: no stream is missed by both
            streams = list(self._streams.values())
        for stream in streams:
            with contextlib.suppress(Exception):
                stream.put(EngineClosed(f"request {stream.request_id}"))
        self._leave_coordinator()
        self._context.destroy(linger=0)
