"""A remote reader's end: takes messages from a session, and reports its progress (Q5, Q18)."""

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from ..base.cleanup import ReleaseStack
from ..base.clock import Deadline
from ..base.event_waiter import Fault
from ..base.serialization import Raw, split_message
from ..errors import AttachFailed, DeadlinePassed, MessagesLost, RankRefused
from ..transport import Client, Gone
from .handshake import Handle
from .reader import Reader
from .remote_fanout import COUNT, GO
from .settings import Settings

_PROBE_SECONDS = 2.0
_REPORT_EVERY = 4  # messages taken before they are reported, if more are here already
_REPORT_WITHIN = 0.005  # seconds after which fewer are reported: the writer may wait for a slot


class RemoteReader(Reader):
    """Attaches over TCP as one remote rank.

    The client's thread fills `_inbox` with (number, body) and wakes this end, which takes from it.
    Messages that came before the writer's end are read before that end is reported (SPEC Q6).
    """

    def __init__(self, handle: Handle, rank: int, settings: Settings, undo: ReleaseStack) -> None:
        super().__init__(handle, rank, settings, undo)
        _probe(handle.remote)
        self._inbox: deque[tuple[int, memoryview]] = deque()
        self._came = 0
        self._taken = self._reported = 0
        self._go = False
        self._refused: RankRefused | None = None
        self._lost = 0
        self._ended: Fault | None = None
        self._wakeup = undo.acquire(os.close, os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._waiter.watch_wakeup(self._wakeup)
        client = partial(
            Client,
            sockets=settings.sockets,
            clock=settings.clock,
            peer_timeout=handle.peer_timeout,
            patience=handle.peer_timeout,
            starts=False,
        )
        self._client = undo.acquire(Client.cut, client, handle.remote, rank, handle.keys, self)

    def say_hello(self) -> None:
        """See `Reader`."""
        self._client.start()

    # -- the client's thread ----------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """See `transport.Listener`: welcome is not yet go."""

    def message(self, rank: int, body: memoryview) -> None:
        """Take the go, or the next message."""
        if not self._go and bytes(body) == GO:
            self._go = True
        else:
            self._inbox.append((self._came, body))
            self._came += 1
        self._wake()

    def gone(self, rank: int, how: Gone) -> None:
        """See `transport.Listener`."""
        self._lost = how.lost
        role = "the writer" if how.kind == "closed" else "writer"
        self._ended = lambda waiting_for: how.error(role, waiting_for)
        self._wake()

    def refused(self, rank: int, reason: str) -> None:
        """See `transport.Listener`."""
        self._refused = RankRefused(rank, reason)
        self._wake()

    def _report_late(self) -> None:
        if self._taken != self._reported:
            self._tell(self._taken)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._wakeup, 1)

    # -- the reader's -----------------------------------------------------------------------

    def _next(self, timeout: float | None) -> Any:
        if self._undelivered is None or self._undelivered[0] >= self._taken:
            raw = self._copy(timeout)
            self._undelivered = self._taken, raw
            self._taken += 1
        self._report()
        return self._decode(*self._undelivered)

    def _copy(self, timeout: float | None) -> Raw:
        """Return the next message's bytes; it stays in the inbox until it is counted as taken."""
        left = Deadline(timeout, self._clock).remaining
        while True:
            if self._waiter.stopped:
                raise self._refusal("a message")
            found = self._first()
            if found is not None:
                return split_message(found)
            seconds = left()
            late = seconds is not None and seconds <= 0
            ended = self._ended  # before the last look: what came before it is in the inbox then
            self._waiter.block(0 if late or ended is not None else seconds)
            fault = self._waiter.fault() or ended
            if self._inbox or fault is None:
                if late and not self._inbox:
                    raise DeadlinePassed("a message", timeout or 0)
                continue
            self._raise(fault)

    def _first(self) -> memoryview | None:
        inbox = self._inbox
        while inbox and inbox[0][0] < self._taken:
            inbox.popleft()
        return inbox[0][1] if inbox else None

    def _raise(self, fault: Fault) -> None:
        if fault is self._ended and self._lost:  # another fault, a cancel, leaves it to be told
            lost, self._lost = self._lost, 0
            raise MessagesLost(lost)
        raise fault("a message")

    def _report(self) -> None:
        """Report the progress to the writer: at once when the inbox is empty, else soon."""
        taken = self._taken
        if taken == self._reported:
            return
        if len(self._inbox) <= 1 or taken - self._reported >= _REPORT_EVERY:
            self._tell(taken)
        else:
            self._client.remind(_REPORT_WITHIN, self._report_late)

    def _tell(self, taken: int) -> None:
        """Tell the writer; from both threads, so that a smaller number may come after a larger."""
        self._client.post(0, COUNT.pack(taken))
        self._reported = taken

    def _handshake_step(self, left: Callable[[], float | None]) -> bool:
        seconds = left()
        if not (self._go or self._refused or self._ended):
            self._waiter.block(None if seconds is None else max(0.0, seconds))
        if self._refused is not None:
            raise self._refused
        if self._waiter.stopped:
            raise self._refusal(self._missing())
        if not self._go and self._ended is not None:
            raise self._ended(self._missing())
        return self._go

    def _shutdown(self, seconds: float) -> None:
        self._client.close(seconds * 0.5)


def _probe(address: str) -> None:
    """Raise AttachFailed if nothing listens; the session judges a network without an answer."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_SECONDS).close()
    except TimeoutError:
        return
    except OSError as error:
        raise AttachFailed(address, str(error)) from error
