"""One epoll for all that wakes a blocked party: wake-ups, peers' ends, cancels (SPEC Q8, Q9)."""

import contextlib
import logging
import os
import select
from collections.abc import Callable

from ..errors import Cancelled, RefengineError
from .cancel import CancelToken, EventLike
from .clock import Clock, monotonic
from .fds import HeldFds

_POLL_INTERVAL = 0.05  # how long a plain threading.Event may go unseen
_WARN_AFTER = 60.0
_log = logging.getLogger(__name__)

Fault = Callable[[str], RefengineError]
"""Function that makes a new error, given the description of the thing waited for."""


class EpollWaiter:
    """Watches descriptors; `fault()` says why waiting further is pointless.

    A wake-up is an eventfd that no process reads, registered edge-triggered: one write wakes every
    sleeper, nothing is drained, no sleeper takes another's token, and a write that comes before
    the sleep stays queued as an edge.
    """

    def __init__(self, clock: Clock = monotonic) -> None:
        self.permanent_error: Fault | None = None  # a peer's end; stays
        self.has_error = False  # `fault()` may have something: one look on the fast path
        self._epoll = select.epoll()
        self._own = HeldFds()
        self._stop = self._own.open(os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.stopped = False
        self._epoll.register(self._stop, select.EPOLLIN)
        self._handlers: dict[int, Callable[[], None]] = {}
        self._cancel: EventLike | None = None
        self.in_call = False  # a call began, and has not ended
        self._indefinite = False
        self._clock = clock
        self.warn_at = 0.0
        """Instant at which a warning is due; 0: none was set, as at the begin of every call."""

    def fileno(self) -> int:
        """Return the epoll, readable when a watched descriptor has news.

        A wake-up counts only since the last `block`.
        """
        return self._epoll.fileno()

    def watch_wakeup(self, fd: int) -> None:
        """Wake at each write to this eventfd. Idempotent."""
        self._register(fd, select.EPOLLIN | select.EPOLLET)

    def watch(self, fd: int, handler: Callable[[], None], events: int = select.EPOLLIN) -> None:
        """Call `handler` from `block` when `fd` has one of `events`, or is hung up."""
        self._handlers[fd] = handler
        self._register(fd, events)

    def unwatch(self, fd: int) -> None:
        """Undo `watch`."""
        if self._handlers.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)

    def set_error(self, fault: Fault) -> None:
        """Set the error of every further call: a peer has ended."""
        self.permanent_error = fault
        self.has_error = True

    def begin_call(self, cancel: EventLike | None, indefinite: bool = False) -> None:
        """Begin a call that may be cancelled."""
        self.end_call()  # whatever an exception left behind
        self.in_call = True
        self._cancel, self._indefinite, self.warn_at = cancel, indefinite, 0.0
        if isinstance(cancel, CancelToken):
            self._epoll.register(cancel.fileno(), select.EPOLLIN)

    def end_call(self) -> None:
        """End the call that `begin_call` began."""
        if isinstance(self._cancel, CancelToken):
            with contextlib.suppress(OSError):
                self._epoll.unregister(self._cancel.fileno())
        self._cancel = None  # last: an exception before it leaves the rest to the next call
        self.in_call = self._indefinite = False

    def stop(self) -> None:
        """Wake every sleeper, for good (from any thread)."""
        self.stopped = self.has_error = True
        with contextlib.suppress(OSError, ValueError):  # closed, also just now
            os.eventfd_write(self._stop, 1)

    def block(self, seconds: float | None) -> None:
        """Sleep until there is news, at most that long; zero only looks."""
        if seconds != 0:
            seconds = self._bounded(seconds)
        for fd, _ in self._epoll.poll(seconds):
            handler = self._handlers.get(fd)
            if handler is not None:
                handler()

    def fault(self) -> Fault | None:
        """Return the error to raise, as of the last `block`: shutdown, cancel, or a peer's end."""
        if self.stopped:
            return _shut_down
        if self._cancel is not None and self._cancel.is_set():
            return _cancelled
        return self.permanent_error

    def poll_interval(self, seconds: float | None) -> float | None:
        """Return the longest sleep that still sees a plain cancel event in time."""
        if self._cancel is None or isinstance(self._cancel, CancelToken):
            return seconds
        return _POLL_INTERVAL if seconds is None else min(_POLL_INTERVAL, seconds)

    def close(self) -> None:
        """Close the descriptors."""
        self.stopped = self.has_error = True
        self._handlers.clear()
        self._epoll.close()
        self._stop = -1
        self._own.close()

    def _register(self, fd: int, events: int) -> None:
        try:
            self._epoll.register(fd, events)
        except FileExistsError:  # an exception struck after it had been registered (R9)
            self._epoll.modify(fd, events)

    def _bounded(self, seconds: float | None) -> float:
        now = self._clock()
        if not self.warn_at:
            self.warn_at = now + _WARN_AFTER
        elif now >= self.warn_at:
            self.warn_at = now + _WARN_AFTER
            if not self._indefinite:
                _log.warning("still waiting after %g s; is the other side at work?", _WARN_AFTER)
        bounded = self.poll_interval(seconds)
        left = self.warn_at - now
        return left if bounded is None else max(0.0, min(left, bounded))


def _shut_down(waiting_for: str) -> Cancelled:
    return Cancelled(waiting_for, "shutdown() was called")


def _cancelled(waiting_for: str) -> Cancelled:
    return Cancelled(waiting_for, "the call was cancelled")
