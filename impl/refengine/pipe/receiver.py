"""The receiver: reads the next tensor off the link from the predecessor, in the caller's thread.

A transfer that has come in part stays as it is between calls, so a call that gives up, or is
struck, changes nothing, and the next one goes on (SPEC X1, R9).
"""

import select
from typing import Any

from ..base.cleanup import append_atomically
from ..base.clock import Clock, Deadline
from ..base.reentrancy import ReentrancyGuard
from ..errors import Busy, DeadlinePassed, PeerDied, PeerSilent, RefengineError
from .errors import MetadataRefused, PipeClosed, TransferFailed
from .link import Link, Reply, pack_reply, ready
from .protocol import HEADER_BYTES, Header, Kind, Way
from .transports.base import ReceiveTransport
from .wakeup import Wakeup

_RECEIVE = "recv_tensor"


class PartialRead:
    """Memory that fills from its beginning. `received` grows by the bytes of each read."""

    def __init__(self, memory: memoryview) -> None:
        self.memory = memory
        self.received: list[int] = []

    def missing(self) -> memoryview:
        """Return the memory for the next bytes; empty once all have come."""
        have = sum(self.received)
        self.received = [have]
        return self.memory[have:]


class PartialTransfer:
    """State of transfer `number`, without I/O."""

    def __init__(self, number: int, key: bytes, most: int) -> None:
        self.number = number
        self._key, self._most = key, most
        self._head = PartialRead(memoryview(bytearray(HEADER_BYTES)))
        self._body: PartialRead | None = None
        self.header: Header | None = None

    def pending(self, transport: ReceiveTransport) -> PartialRead:
        """Return what fills now; with nothing missing, all has come. May raise MetadataRefused."""
        if self._body is None:
            if len(self._head.missing()):
                return self._head
            header = Header.unpack(self._head.memory, self._key, self.number, self._most)
            self.header = header
            self._body = PartialRead(self._room(header, transport))
        return self._body

    def _room(self, header: Header, transport: ReceiveTransport) -> memoryview:
        if header.kind is Kind.TENSOR:
            return transport.room(header)
        return memoryview(bytearray(header.follows))


class Receiver:
    """Receives for one caller at a time; another one gets Busy."""

    def __init__(
        self, link: Link, transport: ReceiveTransport, most: int, peer_timeout: float, clock: Clock
    ) -> None:
        self._link, self._transport, self._most = link, transport, most
        self._peer_timeout, self._clock = peer_timeout, clock
        self._guard = ReentrancyGuard()
        self._partial = PartialTransfer(0, link.session, most)
        self._end: RefengineError | None = None
        self._closed = False
        self._wakeup = Wakeup()

    def receive(self, timeout: float | None) -> tuple[Any, bytes]:
        """Return the next tensor, or None, and its label."""
        guard = self._guard
        if guard.held:
            guard.raise_busy(_RECEIVE)
        taken: PartialTransfer | None = None
        try:
            if not guard.acquire(False):
                raise Busy(_RECEIVE)
            guard.held = True
            header, follows = self._whole(timeout)
            partial = self._partial
            found = self._found(header, follows)
            taken = partial
            self._partial = PartialTransfer(partial.number + 1, self._link.session, self._most)
            guard.exit()
            if isinstance(found, TransferFailed):
                raise found
            return found, header.label  # noqa: TRY300  an exception on the way out is caught, too
        except TransferFailed:
            raise  # it was raised in its tensor's place, which is over
        except BaseException:
            if taken is not None:
                self._partial = taken  # it was not returned: the next call returns it
            guard.exit()
            raise

    def close(self, seconds: float) -> None:
        """Say goodbye. Wakes the call that waits."""
        self._closed = True
        self._wakeup.wake()
        guard = self._guard
        try:
            guard.enter_within(seconds)
            self._reply(Reply.BYE)
            self._link.close()
            self._wakeup.close()
            self._transport.close()
        finally:
            guard.exit()

    def _whole(self, timeout: float | None) -> tuple[Header, memoryview]:
        """Wait until all of the next transfer has come."""
        left = Deadline(timeout, self._clock).remaining
        while True:
            self._check()
            try:
                pending = self._partial.pending(self._transport)
            except MetadataRefused as error:
                self._reply(Reply.REFUSED, error.reason)
                raise self._ended(error) from None
            header = self._partial.header
            missing = pending.missing()
            if header is not None and not len(missing):
                if header.kind is Kind.BYE:
                    raise self._ended(PipeClosed(self._link.peer.role))
                return header, pending.memory
            if not self._take(pending, missing):
                self._wait(left(), timeout)

    def _found(self, header: Header, follows: memoryview) -> Any:
        if header.kind is Kind.FAILED:
            reason = bytes(follows).decode(errors="replace")
            return TransferFailed(header.number, reason)
        if header.kind is Kind.NOTHING:
            return None
        tensor = self._transport.tensor(header, follows)
        if header.way is not Way.INLINE:
            self._reply(Reply.DONE, str(header.number), header.number)
        return tensor

    def _take(self, pending: PartialRead, missing: memoryview) -> bool:
        """Read bytes into `missing`; False if none have come."""
        try:
            append_atomically(pending.received, self._link.sock.recv_into, missing)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._ended(self._broken(error)) from None
        if not pending.received[-1]:
            raise self._ended(self._broken(None))
        return True

    def _wait(self, seconds: float | None, timeout: float | None) -> None:
        if seconds is not None and seconds <= 0:
            raise DeadlinePassed(f"a tensor from {self._link.peer.role}", timeout or 0)
        ready(self._link.sock, select.POLLIN, seconds, self._wakeup.fileno())

    def _check(self) -> None:
        if self._closed:
            raise PipeClosed("this rank")
        if self._end is not None:
            raise self._end

    def _ended(self, error: RefengineError) -> RefengineError:
        """Let every call raise this error from now on."""
        self._end = error
        return error

    def _broken(self, error: OSError | None) -> RefengineError:
        peer = self._link.peer
        if isinstance(error, TimeoutError):
            return PeerSilent(peer.role, self._peer_timeout, "a tensor")
        return PeerDied(peer.role, peer.pid, "a tensor")

    def _reply(self, kind: Reply, text: str = "", number: int = 0) -> None:
        """Send an answer: small, and the sender always reads, so there is room, or no sender."""
        try:
            self._link.sock.send(pack_reply(kind, number, text))
        except OSError:
            return
