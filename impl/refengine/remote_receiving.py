"""A remote reader's end: messages come by a line, and the writer hears what was taken (Q5, Q18)."""

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from .encoding import Raw, split
from .end import countdown
from .errors import AttachFailed, DeadlinePassed, MessagesLost, RankRefused
from .handle import Handle
from .keeping import Undo
from .lines import Gone, Spoke
from .remote_readers import COUNT, GO
from .settings import Settings
from .taking import TakingEnd
from .waiting.strategy import Fault

_PROBE_SECONDS = 2.0
_TELL_EVERY = 4  # messages taken before the writer hears of them, if more are here already


class RemoteReceivingEnd(TakingEnd):
    """Attaches over TCP as one remote rank.

    The spoke's thread fills `_inbox` with (number, body) and rings; this end takes from it. What
    came before the writer's end is read before that end is told (SPEC Q6).
    """

    def __init__(self, handle: Handle, rank: int, settings: Settings, undo: Undo) -> None:
        super().__init__(handle, rank, settings, undo)
        _probe(handle.remote)
        self._inbox: deque[tuple[int, memoryview]] = deque()
        self._came = 0
        self._taken = self._told = 0
        self._go = False
        self._refused: RankRefused | None = None
        self._lost = 0
        self._ended: Fault | None = None
        self._bell = undo.made(os.close, os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._vigil.watch_bell(self._bell)
        spoke = partial(
            Spoke,
            sockets=settings.sockets,
            clock=settings.clock,
            silence=handle.silence,
            patience=handle.silence,
            starts=False,
        )
        self._spoke = undo.made(Spoke.cut, spoke, handle.remote, rank, handle.keys, self)

    def say_hello(self) -> None:
        """See `TakingEnd`."""
        self._spoke.start()

    # -- the spoke's thread -----------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """See `lines.Listener`: welcome is not yet go."""

    def message(self, rank: int, body: memoryview) -> None:
        """The go, or the next message."""
        if not self._go and bytes(body) == GO:
            self._go = True
        else:
            self._inbox.append((self._came, body))
            self._came += 1
        self._ring()

    def gone(self, rank: int, how: Gone) -> None:
        """See `lines.Listener`."""
        self._lost = how.lost
        role = "the writer" if how.kind == "closed" else "writer"
        self._ended = lambda waiting_for: how.error(role, waiting_for)
        self._ring()

    def refused(self, rank: int, reason: str) -> None:
        """See `lines.Listener`."""
        self._refused = RankRefused(rank, reason)
        self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._bell, 1)

    # -- the reader's -----------------------------------------------------------------------

    def _next(self, timeout: float | None) -> Any:
        if self._kept is None or self._kept[0] >= self._taken:
            raw = self._copy(timeout)
            self._kept = self._taken, raw
            self._taken += 1
        self._tell()
        return self._decode(*self._kept)

    def _copy(self, timeout: float | None) -> Raw:
        """The next message's bytes; it stays in the inbox until it is counted as taken."""
        left = countdown(timeout, self._clock)
        while True:
            if self._vigil.stopped:
                raise self._refusal("a message")
            found = self._first()
            if found is not None:
                return split(found)
            seconds = left()
            late = seconds is not None and seconds <= 0
            ended = self._ended  # before the last look: what came before it is in the inbox then
            self._vigil.block(0 if late or ended is not None else seconds)
            fault = self._vigil.fault() or ended
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
        lost, self._lost = self._lost, 0
        if lost and fault is self._ended:
            raise MessagesLost(lost)
        raise fault("a message")

    def _tell(self) -> None:
        """Let the writer know how far we are: at once when there is nothing left to do."""
        taken = self._taken
        if taken != self._told and (len(self._inbox) <= 1 or taken - self._told >= _TELL_EVERY):
            self._spoke.post(0, COUNT.pack(taken))
            self._told = taken

    def _arrive(self, left: Callable[[], float | None]) -> bool:
        seconds = left()
        if not (self._go or self._refused or self._ended):
            self._vigil.block(None if seconds is None else max(0.0, seconds))
        if self._refused is not None:
            raise self._refused
        if self._vigil.stopped:
            raise self._refusal(self._missing())
        if not self._go and self._ended is not None:
            raise self._ended(self._missing())
        return self._go

    def _part(self, seconds: float) -> None:
        self._spoke.close(seconds * 0.5)


def _probe(address: str) -> None:
    """Nobody listening is told at once; a network that does not answer is for the line to judge."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_SECONDS).close()
    except TimeoutError:
        return
    except OSError as error:
        raise AttachFailed(address, str(error)) from error
