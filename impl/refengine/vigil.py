"""What a blocked party hears, in one epoll: bell, peers' ends, shutdown, cancel (SPEC Q8, Q9)."""

import contextlib
import logging
import os
import select
from collections.abc import Callable

from .cancel import CancelToken, EventLike
from .clock import Clock, monotonic
from .descriptors import Descriptors
from .errors import Cancelled
from .waiting.strategy import Fault

_SLICE = 0.05  # how long a plain threading.Event may go unseen
_PATIENCE = 60.0
_log = logging.getLogger(__name__)


class EpollVigil:
    """Watches descriptors; `fault()` says why waiting further is pointless.

    The bell is an eventfd nobody reads, registered edge-triggered: one ring wakes every
    sleeper, nothing is drained, no sleeper takes another's token, and a ring that comes before
    the sleep stays queued as an edge.
    """

    def __init__(self, clock: Clock = monotonic) -> None:
        self.lasting: Fault | None = None  # a peer's end; stays
        self.alarmed = False  # `fault()` may have something: one look on the fast path
        self._epoll = select.epoll()
        self._own = Descriptors()
        self._stop = self._own.open(os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.stopped = False
        self._epoll.register(self._stop, select.EPOLLIN)
        self._handlers: dict[int, Callable[[], None]] = {}
        self._cancel: EventLike | None = None
        self.watched = False  # a call began, and has not ended
        self._indefinite = False
        self._clock = clock
        self._patient_until = 0.0

    def fileno(self) -> int:
        """Readable when anything watched has news (the bell only since the last `block`)."""
        return self._epoll.fileno()

    def watch_bell(self, fd: int) -> None:
        """Wake at each ring of this eventfd. Said again, it changes nothing."""
        self._register(fd, select.EPOLLIN | select.EPOLLET)

    def watch(self, fd: int, handler: Callable[[], None], events: int = select.EPOLLIN) -> None:
        """Call `handler` from `block` when `fd` has one of `events`, or is hung up."""
        self._handlers[fd] = handler
        self._register(fd, events)

    def ignore(self, fd: int) -> None:
        """Undo `watch`."""
        if self._handlers.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)

    def alarm(self, fault: Fault) -> None:
        """A peer's end that concerns every further call."""
        self.lasting = fault
        self.alarmed = True

    def begin(self, cancel: EventLike | None, indefinite: bool = False) -> None:
        """A call starts that may be cancelled."""
        self.end()  # whatever an exception left behind
        self.watched = True
        self._cancel, self._indefinite, self._patient_until = cancel, indefinite, 0.0
        if isinstance(cancel, CancelToken):
            self._epoll.register(cancel.fileno(), select.EPOLLIN)

    def end(self) -> None:
        """That call is over."""
        cancel, self._cancel = self._cancel, None
        self.watched = self._indefinite = False
        if isinstance(cancel, CancelToken):
            with contextlib.suppress(OSError):
                self._epoll.unregister(cancel.fileno())

    def stop(self) -> None:
        """Wake everybody, for good (from any thread)."""
        self.stopped = self.alarmed = True
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
        """Cancelled, shut down, or a peer's end, as of the last `block`."""
        if self.stopped:
            return _shut_down
        if self._cancel is not None and self._cancel.is_set():
            return _cancelled
        return self.lasting

    def slice(self, seconds: float | None) -> float | None:
        """The longest sleep that still sees a plain cancel event in time."""
        if self._cancel is None or isinstance(self._cancel, CancelToken):
            return seconds
        return _SLICE if seconds is None else min(_SLICE, seconds)

    def close(self) -> None:
        """Give the descriptors back."""
        self.stopped = self.alarmed = True
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
        if not self._patient_until:
            self._patient_until = now + _PATIENCE
        elif now >= self._patient_until:
            self._patient_until = now + _PATIENCE
            if not self._indefinite:
                _log.warning("still waiting after %g s; is the other side at work?", _PATIENCE)
        bounded = self.slice(seconds)
        left = self._patient_until - now
        return left if bounded is None else max(0.0, min(left, bounded))


def _shut_down(waiting_for: str) -> Cancelled:
    return Cancelled(waiting_for, "shutdown() was called")


def _cancelled(waiting_for: str) -> Cancelled:
    return Cancelled(waiting_for, "the call was cancelled")
