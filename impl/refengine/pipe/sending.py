"""The sender: a thread that owns the link to the successor, and the calls that feed it."""

import contextlib
import select
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty

from ..clock import Clock
from ..end import countdown
from ..errors import DeadlinePassed, PeerDied, PeerSilent, RefengineError
from ..keeping import keep
from .bell import Bell
from .errors import MetadataRefused, PipeClosed, SendFailed, TensorsLost
from .frames import TEXT_MOST, Header, Kind
from .link import ANSWER_BYTES, Answer, Link, answered, ready
from .outgoing import Outgoing, Parcel, Transfer

_LONGEST = 3600.0


class Sender:
    """`send` from any thread; an error that happens later is told by the next call (SPEC K3)."""

    def __init__(self, link: Link, limit: int, silence: float, clock: Clock) -> None:
        self._link, self._silence, self._clock = link, silence, clock
        self.outgoing = Outgoing(limit)
        self._untold: deque[RefengineError] = deque()
        self._end: RefengineError | None = None
        self._close_by: float | None = None
        self._pieces: deque[memoryview] = deque()  # of the current transfer, not yet gone
        self._gone: list[int] = []  # bytes of the first piece that are
        self._begun = False
        self._awaited = False
        self._answers: list[bytes] = []
        self._bell = Bell()
        self._thread = threading.Thread(target=self._run, name="refengine-pipe", daemon=True)

    def start(self) -> None:
        """Begin, once."""
        if self._thread.ident is None:
            self._thread.start()

    # -- any thread -------------------------------------------------------------------------

    def send(self, nbytes: int, snapshot: Callable[[], Parcel], timeout: float | None) -> None:
        """Hand in what `snapshot` makes, once there is room for so many bytes."""
        self.check()
        transfer = Transfer(nbytes)
        try:
            self.outgoing.ask(transfer)
            self._bell.ring()
            self._await_room(transfer, timeout)
            self.outgoing.hand_in(transfer, snapshot())
            self._bell.ring()
        except BaseException:
            transfer.withdrawn = True
            self._bell.ring()
            raise
        if self._end is not None and self.outgoing.has(transfer):
            raise self._end  # it came after the last look

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
        if self._thread.ident is None:
            self._finish()
        elif self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(seconds + 1.0)
        if self._untold:
            try:
                raise self._untold[0]
            finally:
                self._untold.clear()

    def cut(self) -> None:
        """Close without handing anything over."""
        with contextlib.suppress(RefengineError):
            self.close(0.0)

    def _await_room(self, transfer: Transfer, timeout: float | None) -> None:
        left = countdown(timeout, self._clock)
        while True:
            seconds = left()
            try:
                transfer.news.get(timeout=_LONGEST if seconds is None else max(0.0, seconds))
            except Empty:
                if self._end is None and timeout is not None:
                    raise self._no_room(timeout) from None
            if self.outgoing.has(transfer):
                return
            if self._end is not None:
                raise self._end

    def _no_room(self, timeout: float) -> DeadlinePassed:
        role, used = self._link.across.role, self.outgoing.nbytes
        return DeadlinePassed(f"room: {used} bytes are not yet sent to {role}", timeout)

    # -- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._end is None:
                try:
                    self._turn()
                except BaseException as error:  # it may be anything: nobody else would be told
                    self._fail(error)
        finally:
            self._finish()

    def _turn(self) -> None:
        current = self.outgoing.turn()
        if current is not None and not self._begun:
            self._begin(current)
        if self._pieces:
            self._put()
        elif current is not None and not self._awaited:
            self._leave()
        elif self._close_by is not None and not self.outgoing.unsent:
            self._say_goodbye()
        else:
            self._sleep(select.POLLIN)

    def _begin(self, transfer: Transfer) -> None:
        parcel = transfer.parcel
        assert parcel is not None
        header = parcel.header(self.outgoing.number).pack(self._link.session)
        self._awaited = parcel.beside()
        self._load(header, parcel.follows())

    def _load(self, header: bytes, follows: memoryview) -> None:
        self._gone.clear()
        self._pieces.extend(
            (memoryview(header), follows) if len(follows) else (memoryview(header),)
        )
        self._begun = True

    def _put(self) -> None:
        """As much as goes, of what is first."""
        first = self._pieces[0]
        gone = sum(self._gone)
        if gone == len(first):
            self._pieces.popleft()
            self._gone.clear()
            return
        try:
            keep(self._gone, self._link.sock.send, first[gone:])
        except BlockingIOError:
            self._sleep(select.POLLIN | select.POLLOUT)
        except OSError as error:
            self._hear()
            self._break(error)

    def _leave(self) -> None:
        self._begun = False
        self.outgoing.done()

    def _say_goodbye(self) -> None:
        if not self._begun:
            self._load(Header(Kind.BYE, self.outgoing.number).pack(self._link.session), _NOTHING)
        else:
            self._end = PipeClosed("this rank")

    def _sleep(self, events: int) -> None:
        seconds = None if self._close_by is None else self._close_by - self._clock()
        if seconds is not None and seconds <= 0:
            self._conclude(TensorsLost(self.outgoing.unsent, "the time for closing is over"))
            return
        found = ready(self._link.sock, events, seconds, self._bell.fileno())
        self._bell.quiet()
        if found & ~select.POLLOUT:
            self._hear()

    # -- what the receiver says ---------------------------------------------------------------

    def _hear(self) -> None:
        while self._end is None:
            have = sum(map(len, self._answers))
            try:
                keep(self._answers, self._link.sock.recv, ANSWER_BYTES - have)
            except BlockingIOError:
                return
            except OSError as error:
                self._break(error)
                return
            if not self._answers[-1]:
                self._break(None)
            elif sum(map(len, self._answers)) == ANSWER_BYTES:
                raw = b"".join(self._answers)
                self._answers.clear()
                self._answer(*answered(raw))

    def _answer(self, kind: int, number: int, text: str) -> None:
        if kind == Answer.DONE and number == self.outgoing.number:
            self._awaited = False
        elif kind == Answer.REFUSED:
            self._conclude(MetadataRefused(f"{self._link.across.role} says: {text}"))
        elif kind == Answer.BYE:
            self._conclude(PipeClosed(self._link.across.role))

    def _break(self, error: OSError | None) -> None:
        across = self._link.across
        if isinstance(error, TimeoutError):
            self._conclude(PeerSilent(across.role, self._silence, "tensors to leave"))
        else:
            self._conclude(PeerDied(across.role, across.pid, "tensors to leave"))

    # -- ends -------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """A transfer failed: alone, if nothing of it has left; else, nothing can follow it."""
        number, reason = self.outgoing.number, f"{type(error).__name__}: {error}"
        told = SendFailed(number, reason)
        told.__cause__ = error
        if self.outgoing.current is None or self._gone or self._begun:
            self._conclude(told)
            return
        text = reason.encode()[:TEXT_MOST]
        header = Header(Kind.FAILED, number, follows=len(text)).pack(self._link.session)
        self._untold.append(told)
        self._awaited = False
        self._load(header, memoryview(text))

    def _conclude(self, error: RefengineError) -> None:
        """Nothing can be sent any more, because of this."""
        if self._end is None:
            if self.outgoing.unsent or not isinstance(error, PipeClosed):
                self._untold.append(error)
            self._end = error

    def _finish(self) -> None:
        """Whatever happened: nobody waits, nothing is held."""
        if self._end is None:
            self._end = PipeClosed("this rank")
        self.outgoing.end()
        self._pieces.clear()
        self._link.close()
        self._bell.close()


_NOTHING = memoryview(b"")
