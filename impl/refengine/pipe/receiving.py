"""The receiver: takes the next tensor off the link from the predecessor, in the caller's thread."""

import select
from typing import Any

from ..base.cleanup import append_atomically
from ..base.clock import Clock, Deadline
from ..base.reentrancy import ReentrancyGuard
from ..errors import Busy, DeadlinePassed, PeerDied, PeerSilent, RefengineError
from .arrival import Arrival, Filling, Inlet
from .bell import Bell
from .errors import MetadataRefused, PipeClosed, TransferFailed
from .frames import Header, Kind, Way
from .link import Answer, Link, answer, ready

_RECEIVE = "recv_tensor"


class Receiver:
    """One caller at a time; another one gets Busy."""

    def __init__(self, link: Link, inlet: Inlet, most: int, silence: float, clock: Clock) -> None:
        self._link, self._inlet, self._most = link, inlet, most
        self._silence, self._clock = silence, clock
        self._guard = ReentrancyGuard()
        self._arrival = Arrival(0, link.session, most)
        self._end: RefengineError | None = None
        self._closed = False
        self._bell = Bell()

    def receive(self, timeout: float | None) -> tuple[Any, bytes]:
        """The next tensor, or None, and its label."""
        guard = self._guard
        if guard.held:
            guard.raise_busy(_RECEIVE)
        taken: Arrival | None = None
        try:
            if not guard.acquire(False):
                raise Busy(_RECEIVE)
            guard.held = True
            header, follows = self._whole(timeout)
            arrival = self._arrival
            found = self._found(header, follows)
            taken = arrival
            self._arrival = Arrival(arrival.number + 1, self._link.session, self._most)
            guard.exit()
            if isinstance(found, TransferFailed):
                raise found
            return found, header.label  # noqa: TRY300  an exception on the way out is caught, too
        except TransferFailed:
            raise  # it was given in its tensor's place, which is over
        except BaseException:
            if taken is not None:
                self._arrival = taken  # nobody got it: the next call gives it
            guard.exit()
            raise

    def close(self, seconds: float) -> None:
        """Say goodbye. Wakes the call that waits."""
        self._closed = True
        self._bell.ring()
        guard = self._guard
        try:
            guard.enter_within(seconds)
            self._say(Answer.BYE)
            self._link.close()
            self._bell.close()
            self._inlet.close()
        finally:
            guard.exit()

    def _whole(self, timeout: float | None) -> tuple[Header, memoryview]:
        """Until all of the next transfer has come."""
        left = Deadline(timeout, self._clock).remaining
        while True:
            self._check()
            try:
                filling = self._arrival.filling(self._inlet)
            except MetadataRefused as error:
                self._say(Answer.REFUSED, error.reason)
                raise self._ended(error) from None
            header = self._arrival.header
            missing = filling.missing()
            if header is not None and not len(missing):
                if header.kind is Kind.BYE:
                    raise self._ended(PipeClosed(self._link.across.role))
                return header, filling.memory
            if not self._take(filling, missing):
                self._wait(left(), timeout)

    def _found(self, header: Header, follows: memoryview) -> Any:
        if header.kind is Kind.FAILED:
            reason = bytes(follows).decode(errors="replace")
            return TransferFailed(header.number, reason)
        if header.kind is Kind.NOTHING:
            return None
        tensor = self._inlet.tensor(header, follows)
        if header.way is not Way.INLINE:
            self._say(Answer.DONE, str(header.number), header.number)
        return tensor

    def _take(self, filling: Filling, missing: memoryview) -> bool:
        """Some bytes into there; False if none have come."""
        try:
            append_atomically(filling.came, self._link.sock.recv_into, missing)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._ended(self._broken(error)) from None
        if not filling.came[-1]:
            raise self._ended(self._broken(None))
        return True

    def _wait(self, seconds: float | None, timeout: float | None) -> None:
        if seconds is not None and seconds <= 0:
            raise DeadlinePassed(f"a tensor from {self._link.across.role}", timeout or 0)
        ready(self._link.sock, select.POLLIN, seconds, self._bell.fileno())

    def _check(self) -> None:
        if self._closed:
            raise PipeClosed("this rank")
        if self._end is not None:
            raise self._end

    def _ended(self, error: RefengineError) -> RefengineError:
        """Every call raises this from now on."""
        self._end = error
        return error

    def _broken(self, error: OSError | None) -> RefengineError:
        across = self._link.across
        if isinstance(error, TimeoutError):
            return PeerSilent(across.role, self._silence, "a tensor")
        return PeerDied(across.role, across.pid, "a tensor")

    def _say(self, kind: Answer, text: str = "", number: int = 0) -> None:
        """An answer is small, and the sender always reads: there is room, or nobody is there."""
        try:
            self._link.sock.send(answer(kind, number, text))
        except OSError:
            return
