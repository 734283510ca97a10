"""Messages too large for a chunk travel whole, as one ZeroMQ frame each (SPEC 3, Q2, X1).

One frame, not a multipart: an exception between two parts would leave half a message in the
socket. A frame starts with the payload's id, so that one that no reader awaits any more (its
enqueue was interrupted before its marker) is recognised and dropped.
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

from ..base.buffer_pool import BufferPool
from ..base.cleanup import ReleaseStack, append_atomically
from ..base.clock import Clock, monotonic, poll_milliseconds
from ..base.fds import FdReserve, ensure_fds_available
from ..base.security import SocketFactory, destroy
from ..base.serialization import Buffer, Raw, split_message, total_of, write_message

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
        self._memory = BufferPool()
        self._heard: deque[bytes] = deque()
        undo = ReleaseStack()
        try:
            self._context = undo.acquire(destroy, sockets.context)
            self._room = undo.acquire(FdReserve.close, FdReserve, readers)
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
        """Keep room for so many; a reader that is here already may use the room kept so far."""
        self._room.close_all_but(to_come)

    def send(self, buffers: Sequence[Buffer]) -> tuple[int, int]:
        """Copy, once, and send; returns (payload id, bytes) for the marker."""
        nbytes = total_of([len(b) for b in buffers]) + 1
        if self._last_id == 0:
            ensure_fds_available(_ROOM_TO_SEND)
        self._last_id += 1
        frame = self._memory.take(_ID.size + nbytes)
        _ID.pack_into(frame, 0, self._last_id)
        write_message(buffers, frame[_ID.size :])
        self.socket.send(frame, copy=False)  # refers to the frame until it has left
        return self._last_id, nbytes

    def subscriptions(self) -> deque[bytes]:
        """Return the frames that subscribers sent; the caller removes each once it is handled."""
        with contextlib.suppress(zmq.Again):
            while True:
                append_atomically(self._heard, self.socket.recv, zmq.NOBLOCK)
        return self._heard

    def close(self, linger: float) -> None:
        """Send queued payloads, for at most `linger` seconds."""
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
        undo = ReleaseStack()
        try:
            self._context = undo.acquire(destroy, sockets.context)
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
        """Subscribe to everything, then to `nonce`, by which the writer knows who subscribed.

        Idempotent.
        """
        if not self._connected:
            append_atomically(self._connected, self.socket.connect, address)
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.socket.setsockopt(zmq.SUBSCRIBE, nonce)

    def find(self, payload_id: int) -> Raw | None:
        """Return payload `payload_id` if it has arrived, every time; drop those before it."""
        inbox = self._inbox
        while True:
            while inbox:
                (found,) = _ID.unpack_from(inbox[0].buffer, 0)
                if found == payload_id:
                    self._found = found
                    return split_message(
                        inbox[0].buffer[_ID.size :]
                    )  # the frame is its reader's own
                if found > payload_id:
                    return None
                inbox.popleft()
            with self._one_thread:
                if not inbox and not self.socket.poll(0):
                    return None
            if not inbox:
                self._fetch()

    def forget(self) -> None:
        """Drop the payload found last: it is consumed."""
        if self._inbox and _ID.unpack_from(self._inbox[0].buffer, 0)[0] == self._found:
            self._inbox.popleft()

    def _fetch(self) -> None:
        """Move one frame from the socket to the inbox; no signal handler may interrupt it (R9).

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
        """Release the lock that an exception at the end of a `with` left to this thread (R9)."""
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

    def wait(self, waiter_fd: int, seconds: float | None) -> None:
        """Sleep until a payload, the connection's end, or news at the waiter."""
        self._sleep((self.socket, self._monitor, waiter_fd), seconds)

    def wait_gone(self, seconds: float) -> None:
        """Sleep, with the writer gone, until data, or until the connection proves empty."""
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
            poller.poll(None if seconds is None else int(poll_milliseconds(seconds)) + 1)
            while self._monitor.poll(0):
                self.disconnected = True  # the only event asked for; it has two frames
                self._monitor.recv(zmq.NOBLOCK)

    def is_empty(self) -> bool:
        """Return, with the writer gone, whether nothing can arrive any more (known within 1 s)."""
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
