"""The thread that serves one end of sessions: its loop, its wake-up, its end."""

import contextlib
import logging
import os
import select
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

import zmq

from ..base.cleanup import ReleaseStack, ServingThread
from ..base.clock import Clock, poll_milliseconds
from ..base.fds import HeldFds
from . import protocol
from .keepalive import TcpKeepalive
from .session import Body

RETURN_WITHIN = 1.5
"""Seconds in which an end whose connection broke must be back. A killed one never is; SPEC Q6
and Q7 want that reported within 2 s."""
A_TURN = 256
"""Most messages that are taken in before others get their turn: a flood must not stop messages that
go out, nor a close."""
_FLUSH_MOST, _FLUSH_LEAST = 0.5, 0.1  # seconds for a goodbye to be heard; done at once as a rule
_log = logging.getLogger(__name__)


class IoThread(ABC):
    """Base of server and client. Sockets and sessions belong to its thread alone."""

    def __init__(self, clock: Clock, peer_timeout: float) -> None:
        self._clock, self._peer_timeout = clock, peer_timeout
        self._tick = min(0.5, peer_timeout / 20)
        self._posts: deque[tuple[int, Body]] = deque()
        self._close_by: float | None = None
        self._unsays = False
        self._reminder: tuple[float, Callable[[], object]] | None = None
        self._own = HeldFds()
        self._wake = self._own.open(os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = ServingThread(self._run, name=type(self).__name__)
        self._pid = os.getpid()

    def post(self, rank: int, body: Body) -> None:
        """Send to a peer, now or once it is (back) there. `body` must not change any more."""
        self._posts.append((rank, body))
        self._nudge()

    def remind(self, seconds: float, act: Callable[[], object]) -> None:
        """Have this end's thread call `act` in so many seconds, unless it has a reminder yet."""
        if self._reminder is None:
            self._reminder = self._clock() + seconds, act
            self._nudge()

    def close(self, seconds: float) -> None:
        """Hand over posted messages, for at most `seconds`; say goodbye. Idempotent.

        The listener is not called any more once this returns.
        """
        if os.getpid() != self._pid or self._wake < 0:
            return
        self._close_by = self._clock() + seconds
        self._nudge()
        if self._thread.prevent():
            self._tear_down()
        elif self._thread.is_alive():
            self._thread.join()
        self._wake = -1
        self._own.close()

    def cut(self) -> None:
        """Close without handing anything over."""
        self.close(0.0)

    def take_back(self) -> None:
        """End as if this end had never come. For tentative sessions that are not settled."""
        self._unsays = True
        self.close(0.0)

    def start(self) -> None:
        """Begin to serve the sessions, once. Nothing is done after the thread's start."""
        _io_threads.add(self)
        if self._thread.ident is None:
            self._thread.start()

    def _undo_construction(self, undo: ReleaseStack) -> None:
        """Release what a constructor has made that an exception ends, maybe in `start`."""
        if self._thread.prevent():
            undo.close()
        else:
            self.cut()  # its thread releases it

    def _nudge(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        try:
            while not self._turn():
                if not self._has_posts():
                    until = self._until_check(), self._until_reminder(), self._seconds_left()
                    self._sleep(min(until))
                self._heed_reminder()
            self._await_heard()
        except Exception:
            _log.exception("%s failed; its far ends will notice", type(self).__name__)
        finally:
            self._tear_down()

    def _await_heard(self) -> None:
        """Wait until the goodbye was heard, and take in what still comes.

        A socket that lingers in its place can abort the process: libzmq stops to read from it,
        and once its far end hangs up, the next heartbeat meets an error that nobody has taken
        (zeromq/libzmq#4364).
        """
        until = self._clock() + max(_FLUSH_LEAST, min(_FLUSH_MOST, self._seconds_left()))
        while self._is_unheard() and (left := until - self._clock()) > 0:
            self._sleep(left)

    def _sleep(self, seconds: float) -> None:
        sockets = self._sockets()
        if any(socket.EVENTS & zmq.POLLIN for socket in sockets):
            return  # its descriptor only shows changes
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        for socket in sockets:
            poller.register(socket.FD, select.POLLIN)
        for keepalive in self._keepalives():
            poller.register(keepalive.fileno(), keepalive.EVENTS)
        poller.poll(poll_milliseconds(seconds))
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def _has_posts(self) -> bool:
        return bool(self._posts)

    def _until_check(self) -> float:
        """Return the longest sleep after which signs of life are looked at in time."""
        return self._tick

    def _until_reminder(self) -> float:
        reminder = self._reminder
        return float("inf") if reminder is None else max(0.0, reminder[0] - self._clock())

    def _heed_reminder(self) -> None:
        reminder = self._reminder
        if reminder is not None and self._clock() >= reminder[0]:
            self._reminder = None  # first: whoever comes from now on needs another one
            reminder[1]()

    def _is_overdue(self) -> bool:
        return self._seconds_left() <= 0

    def _seconds_left(self) -> float:
        """Return the seconds until the time for closing is over."""
        if self._close_by is None:
            return float("inf")
        return max(0.0, self._close_by - self._clock())

    def _goodbye(self, posted: int) -> bytes:
        return bytes([protocol.UNSAID]) if self._unsays else protocol.numbered(protocol.BYE, posted)

    @abstractmethod
    def _turn(self) -> bool:
        """Do all work that is due; return whether this end has ended, and has said goodbye."""

    @abstractmethod
    def _is_unheard(self) -> bool:
        """Read what has come; return whether a far end may not have heard the goodbye."""

    @abstractmethod
    def _sockets(self) -> list[Any]: ...

    @abstractmethod
    def _keepalives(self) -> list[TcpKeepalive]: ...

    @abstractmethod
    def _tear_down(self) -> None: ...

    def _abandon(self) -> None:
        for keepalive in self._keepalives():
            keepalive.abandon()


def frames_of(socket: "zmq.Socket[bytes]") -> "list[zmq.Frame] | None":
    """Return the next message that has come, or None."""
    try:
        found: Any = socket.recv_multipart(zmq.NOBLOCK, copy=False)
    except zmq.Again:
        return None
    return found


def keepalive_of(frame: "zmq.Frame", address: str) -> TcpKeepalive | None:
    """Return the keepalive of the connection that a frame came by, if it still stands.

    `address`: where this end listens, or has connected to.
    """
    try:
        return TcpKeepalive(int(frame.get(zmq.SRCFD)), address)
    except OSError:
        return None


_io_threads: "weakref.WeakSet[IoThread]" = weakref.WeakSet()


def _after_fork() -> None:
    for io_thread in list(_io_threads):
        io_thread._abandon()  # pyright: ignore[reportPrivateUsage]  # of the same module


os.register_at_fork(after_in_child=_after_fork)
