"""Messages too large for a chunk travel whole, as one ZeroMQ frame each (SPEC 3, Q2, X1).

One frame, not a multipart: an exception between two parts would leave half a message in the
socket. A frame starts with the payload's id, so that one nobody awaits any more (its enqueue
was interrupted before its marker) is recognised and dropped.
"""

import contextlib
import struct
import threading
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import zmq

from .clock import Clock, monotonic
from .descriptors import Reserve, need
from .encoding import Buffer, Raw, put, split, total_of
from .keeping import Undo, keep
from .recycling import Recycler
from .security import SocketFactory, destroy

_ID = struct.Struct(">Q")
_ROOM_TO_SEND = 16
"""Descriptors that pyzmq may open at its first message without a copy, a context's among them."""
_DRAIN_CAP = 1.0
_SETTLE_MS = 50
_NEVER_MS = 24 * 3600 * 1000


def _flush(socket: "zmq.Socket[bytes]", linger: float) -> None:
    socket.close(linger=max(0, int(linger * 1000)))


class PayloadSender:
    """The writer's XPUB. Its queue is bounded by the ring: a payload needs a free slot first."""

    def __init__(self, address: str, sockets: SocketFactory, readers: int = 0) -> None:
        self._last_id = 0
        self._memory = Recycler()
        self._heard: deque[bytes] = deque()
        undo = Undo()
        try:
            self._context = undo.made(destroy, sockets.context)
            self._room = undo.made(Reserve.close, Reserve, readers)
            self.socket = self._context.socket(zmq.XPUB)
            self.socket.setsockopt(zmq.XPUB_VERBOSE, 1)
            self.socket.setsockopt(zmq.SNDHWM, 0)
            # For a connection that breaks: with the default, libzmq waits for ever to send what
            # was still queued for it, and `close` with it. `close` has a linger of its own.
            self.socket.setsockopt(zmq.LINGER, 0)
            self.socket.bind(address)
        except BaseException:
            undo.close()
            raise

    def expect_readers(self, to_come: int) -> None:
        """Keep room for so many; whoever else is here may connect, and have what was kept."""
        self._room.leave(to_come)

    def send(self, buffers: Sequence[Buffer]) -> tuple[int, int]:
        """Copy, once, and send; returns (payload id, bytes) for the marker."""
        nbytes = total_of([len(b) for b in buffers]) + 1
        if self._last_id == 0:
            need(_ROOM_TO_SEND)
        self._last_id += 1
        frame = self._memory.take(_ID.size + nbytes)
        _ID.pack_into(frame, 0, self._last_id)
        put(buffers, frame[_ID.size :])
        self.socket.send(frame, copy=False)  # refers to the frame until it has left
        return self._last_id, nbytes

    def subscriptions(self) -> deque[bytes]:
        """The frames that subscribers sent up, for the caller to take away once it is done."""
        with contextlib.suppress(zmq.Again):
            while True:
                keep(self._heard, self.socket.recv, zmq.NOBLOCK)
        return self._heard

    def close(self, linger: float) -> None:
        """Send what is queued, for at most `linger` seconds."""
        self._room.close()
        if not self.socket.closed:
            _flush(self.socket, linger)
            self._context.term()

    def drop(self) -> None:
        """Close without sending anything more."""
        self.close(0.0)


class PayloadReceiver:
    """A reader's SUB. Keeps a payload that arrived until its marker is consumed."""

    def __init__(self, sockets: SocketFactory, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._connected: list[object] = []
        self._found = 0
        self._one_thread = threading.RLock()  # holds whoever uses the socket
        self._inbox: deque[zmq.Frame] = deque()
        self.disconnected = False
        self._concluded = False
        self._gone_since: float | None = None
        undo = Undo()
        try:
            self._context = undo.made(destroy, sockets.context)
            self.socket = self._context.socket(zmq.SUB)
            self.socket.setsockopt(zmq.RCVHWM, 0)
            # Not -1: that ends the pipe with its connection, and payloads in it with the pipe.
            self.socket.setsockopt(zmq.RECONNECT_IVL, _NEVER_MS)
            self._monitor = self.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            self._receive = partial(self.socket.recv, copy=False)
        except BaseException:
            undo.close()
            raise

    def connect(self, address: str, nonce: bytes) -> None:
        """Subscribe to everything, then to `nonce`, which tells the writer who subscribed.

        Said again, it changes nothing.
        """
        if not self._connected:
            keep(self._connected, self.socket.connect, address)
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.socket.setsockopt(zmq.SUBSCRIBE, nonce)

    def find(self, payload_id: int) -> Raw | None:
        """Payload `payload_id` if it has arrived; drops those before it. Finds it again, too."""
        inbox = self._inbox
        while True:
            while inbox:
                (found,) = _ID.unpack_from(inbox[0].buffer, 0)
                if found == payload_id:
                    self._found = found
                    return split(inbox[0].buffer[_ID.size :])  # the frame is its reader's own
                if found > payload_id:
                    return None
                inbox.popleft()
            with self._one_thread:
                if not inbox and not self.socket.poll(0):
                    return None
            if not inbox:
                self._fetch()

    def forget(self) -> None:
        """The payload found last is consumed."""
        if self._inbox and _ID.unpack_from(self._inbox[0].buffer, 0)[0] == self._found:
            self._inbox.popleft()

    def _fetch(self) -> None:
        """One frame from the socket to the inbox, which no signal handler may interrupt (R9).

        pyzmq runs handlers after it took a frame and before it returns it, and only the main
        thread runs handlers; so another one takes it. A payload is worth a thread's start.
        """
        if threading.current_thread() is not threading.main_thread():
            self._pull()
            return
        self._let_go()
        done = threading.Lock()
        done.acquire()
        start_new_thread(self._pull, (done.release,))
        done.acquire()  # a handler may raise here: the frame reaches the inbox all the same

    def _let_go(self) -> None:
        """Give back what an exception at the end of a `with` left held by this thread (R9)."""
        with contextlib.suppress(RuntimeError):
            while True:
                self._one_thread.release()

    def _pull(self, done: Callable[[], None] | None = None) -> None:
        try:
            # ZMQError: nothing there after all, or closed meanwhile.
            with self._one_thread, contextlib.suppress(zmq.ZMQError):
                self._inbox.extend(map(self._receive, (zmq.NOBLOCK,)))
        finally:
            if done is not None:
                done()

    def wait(self, vigil_fd: int, seconds: float | None) -> None:
        """Sleep until a payload, the connection's end, or news at the vigil."""
        self._sleep((self.socket, self._monitor, vigil_fd), seconds)

    def wait_gone(self, seconds: float) -> None:
        """With the writer gone: sleep until data, or until the connection proves empty."""
        if not self.disconnected:
            self._sleep((self.socket, self._monitor), min(seconds, _DRAIN_CAP))
            return
        with self._one_thread:  # the event may overtake the data
            self._concluded = not self._inbox and not self.socket.poll(_SETTLE_MS)

    def _sleep(self, sources: Sequence[Any], seconds: float | None) -> None:
        poller = zmq.Poller()
        for source in sources:
            poller.register(source, zmq.POLLIN)
        with self._one_thread:
            if self._inbox:
                return  # a frame whose `_fetch` was interrupted came late
            poller.poll(None if seconds is None else int(max(0.0, seconds) * 1000) + 1)
            while self._monitor.poll(0):
                self.disconnected = True  # the only event asked for; it has two frames
                self._monitor.recv(zmq.NOBLOCK)

    def is_empty(self) -> bool:
        """With the writer gone: whether nothing can arrive any more (known within a second)."""
        if self._gone_since is None:
            self._gone_since = self._clock()
        return self._concluded or self._clock() - self._gone_since >= _DRAIN_CAP

    def close(self) -> None:
        """Drop everything."""
        with self._one_thread:
            if self.socket.closed:
                return
            self.socket.disable_monitor()
            self._monitor.close(linger=0)
            self.socket.close(linger=0)
            self._context.term()
