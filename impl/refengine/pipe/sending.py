"""The sender: a thread that owns the link to the successor, and the calls that feed it."""

import contextlib
import select
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty

from ..base.cleanup import append_atomically
from ..base.clock import Clock, Deadline
from ..errors import DeadlinePassed, PeerDied, PeerSilent, RefengineError
from .bell import Bell
from .errors import MetadataRefused, PipeClosed, SendFailed, TensorsLost
from .frames import Header, Kind
from .leaving import Leaving
from .link import ANSWER_BYTES, Answer, Link, answered, ready
from .outgoing import Failure, Outgoing, Parcel, Transfer

_A_LOOK = 1.0
"""Seconds in which the thread, if it lives, has looked at what it was asked."""
_NOTHING = memoryview(b"")
_TO_LEAVE = "tensors to leave"


class Sender:
    """`send` from any thread; an error that happens later is told by the next call (SPEC K3)."""

    def __init__(self, link: Link, limit: int, silence: float, clock: Clock) -> None:
        self._link, self._silence, self._clock = link, silence, clock
        self.outgoing = Outgoing(limit)
        self._untold: deque[RefengineError] = deque()
        self._end: RefengineError | None = None
        self._close_by: float | None = None
        self._leaving: Leaving | None = None
        self._awaited: bool | None = None
        self._answers: list[bytes] = []
        self._bell = Bell()
        self._thread = threading.Thread(target=self._run, name="refengine-pipe", daemon=True)

    def start(self) -> None:
        """Begin, once."""
        if self._thread.ident is None:
            self._thread.start()

    # -- any thread -------------------------------------------------------------------------

    def send(self, nbytes: int, snapshot: Callable[[], Parcel], timeout: float | None) -> None:
        """Hand in what `snapshot` makes, once there is room for so many bytes.

        An error of the snapshot's own is raised, and handed in, in its place (SPEC K3).
        """
        self.check()
        transfer = Transfer(nbytes)
        try:
            self.outgoing.ask(transfer)
            self._bell.ring()
            self._await_room(transfer, timeout)
            self.outgoing.hand_in(transfer, self._made(transfer, snapshot))
            self._bell.ring()
            if self._end is not None:
                raise self._end  # nobody may have looked since
        except BaseException:
            if not isinstance(transfer.parcel, Failure):
                self.outgoing.withdraw(transfer)
            self._bell.ring()
            raise

    def check(self) -> None:
        """Raise what was not told yet, or what nothing can be sent for any more."""
        if self._untold:
            try:
                raise self._untold[0]
            finally:
                self._untold.popleft()
        if self._close_by is not None:
            raise PipeClosed("this rank")
        if self._end is not None:
            raise self._end

    def close(self, seconds: float) -> None:
        """Hand over what was handed in, for at most that long; raise what was not told."""
        if self._close_by is None:
            self._close_by = self._clock() + seconds
        self._bell.ring()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(seconds + _A_LOOK)
        self._finish()
        if self._untold:
            try:
                raise self._untold[0]
            finally:
                self._untold.clear()

    def cut(self) -> None:
        """Close without handing anything over."""
        with contextlib.suppress(RefengineError):
            self.close(0.0)

    def _made(self, transfer: Transfer, snapshot: Callable[[], Parcel]) -> Parcel:
        try:
            return snapshot()
        except Exception as error:
            self.outgoing.hand_in(transfer, Failure(_told(error)))
            raise

    def _await_room(self, transfer: Transfer, timeout: float | None) -> None:
        left = Deadline(timeout, self._clock).remaining
        while not self.outgoing.has(transfer):
            if self._end is not None:
                raise self._end
            seconds = left()
            if seconds is not None and seconds <= 0:
                if transfer.considered:
                    raise self._no_room(timeout or 0)
                try:
                    transfer.news.get(timeout=_A_LOOK)
                except Empty:
                    raise self._no_room(timeout or 0) from None
                continue
            try:
                transfer.news.get(timeout=_A_LOOK if seconds is None else min(seconds, _A_LOOK))
            except Empty:
                if not self._thread.is_alive():  # struck where it could not even say so
                    self._finish()

    def _no_room(self, timeout: float) -> DeadlinePassed:
        role, used = self._link.across.role, self.outgoing.nbytes()
        return DeadlinePassed(f"room: {used} bytes are not yet sent to {role}", timeout)

    # -- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._end is None:
                self._step()
        finally:
            self._finish()

    def _step(self) -> None:
        """Of its own: CPython guards no line of a `try` that stands right within another."""
        try:
            self._turn()
        except BaseException as error:  # whatever it is: nobody else would be told
            self._fail(error)

    def _turn(self) -> None:
        current, leaving = self.outgoing.turn(), self._leaving
        if leaving is not None:
            self._put(leaving, current)
        elif current is not None:
            self._begin(current)
        elif self._close_by is not None:
            self._leaving = Leaving(self._packed(Header(Kind.BYE, self.outgoing.number)), _NOTHING)
        else:
            self._sleep(select.POLLIN)

    def _begin(self, transfer: Transfer) -> None:
        parcel = transfer.parcel
        assert parcel is not None
        header = self._packed(parcel.header(self.outgoing.number))
        self._awaited = None
        self._leaving = Leaving(header, parcel.follows())

    def _put(self, leaving: Leaving, current: Transfer | None) -> None:
        """As much as goes; after the last of it, the transfer is over."""
        rest = leaving.rest()
        if len(rest):
            try:
                append_atomically(leaving.gone, self._link.sock.send, rest)
            except BlockingIOError:
                self._sleep(select.POLLIN | select.POLLOUT)
            except OSError as error:
                self._hear()  # it may have said why
                self._break(error)
        elif current is None or current.parcel is None:
            self._end = PipeClosed("this rank")  # that was the goodbye
        elif self._awaited is None:
            self._awaited = current.parcel.beside()
        elif self._awaited:
            self._sleep(select.POLLIN)
        else:
            self.outgoing.done()
            self._leaving = None

    def _sleep(self, events: int) -> None:
        seconds = None if self._close_by is None else self._close_by - self._clock()
        if seconds is not None and seconds <= 0:
            lost = TensorsLost(self.outgoing.unsent(), "the time for closing is over")
            self._conclude(lost)
            return
        found = ready(self._link.sock, events, seconds, self._bell.fileno())
        self._bell.quiet()
        if found & ~select.POLLOUT:
            self._hear()

    def _packed(self, header: Header) -> bytes:
        return header.pack(self._link.session)

    # -- what the receiver says ---------------------------------------------------------------

    def _hear(self) -> None:
        while self._end is None:
            have = sum(map(len, self._answers))
            if have == ANSWER_BYTES:
                self._answer(*answered(b"".join(self._answers)))
                self._answers = []
                continue
            try:
                append_atomically(self._answers, self._link.sock.recv, ANSWER_BYTES - have)
            except BlockingIOError:
                return
            except OSError as error:
                self._break(error)
                return
            if not self._answers[-1]:
                self._break(None)

    def _answer(self, kind: int, number: int, text: str) -> None:
        role = self._link.across.role
        if kind == Answer.DONE and number == self.outgoing.number:
            self._awaited = False
        elif kind == Answer.REFUSED:
            self._conclude(MetadataRefused(f"{role} says: {text}"))
        elif kind == Answer.BYE:
            self._conclude(PipeClosed(role))

    def _break(self, error: OSError | None) -> None:
        across = self._link.across
        if isinstance(error, TimeoutError):
            self._conclude(PeerSilent(across.role, self._silence, _TO_LEAVE))
        else:
            self._conclude(PeerDied(across.role, across.pid, _TO_LEAVE))

    # -- ends -------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """A transfer failed: alone, if nothing of it has left; else, nothing can follow it."""
        number = self.outgoing.number
        told = SendFailed(number, _told(error))
        told.__cause__ = error
        current = self.outgoing.current
        if current is None or self._leaving is not None:
            self._conclude(told)
            return
        self._untold.append(told)
        failure = Failure(told.reason)
        self._awaited = False  # nothing is beside it
        header = self._packed(failure.header(number))
        self._leaving = Leaving(header, failure.follows())

    def _conclude(self, error: RefengineError) -> None:
        """Nothing can be sent any more, because of this.

        Told by the next call; by `close`, too, if something was lost by it or is its fault.
        """
        if self._end is None:
            self._end = error  # first: a call that hands in after this sees it
            if self.outgoing.unsent() or isinstance(error, SendFailed | MetadataRefused):
                self._untold.append(error)

    def _finish(self) -> None:
        """Whatever happened: nobody waits, nothing is held. May be done again."""
        if self._end is None and self._close_by is None:
            self._conclude(SendFailed(self.outgoing.number, "the pipe's thread has ended"))
        elif self._end is None:
            lost = TensorsLost(self.outgoing.unsent(), "the time for closing is over")
            self._conclude(lost)
        self.outgoing.end()
        self._leaving = None
        self._link.close()
        self._bell.close()


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
