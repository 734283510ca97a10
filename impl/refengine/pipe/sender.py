"""The sender: a thread that owns the link to the successor, and the calls that feed it."""

import contextlib
import select
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty

from ..base.cleanup import ServingThread, append_atomically
from ..base.clock import Clock, Deadline
from ..errors import DeadlinePassed, PeerDied, PeerSilent, RefengineError
from .errors import MetadataRefused, PipeClosed, SendFailed, TensorsLost
from .link import REPLY_BYTES, Link, Reply, parse_reply, ready
from .protocol import Header, Kind
from .send_queue import Failure, PartialWrite, SendQueue, Snapshot, Transfer
from .wakeup import Wakeup

_POLL_INTERVAL = 1.0
"""Seconds within which a live thread has considered every transfer."""
_NOTHING = memoryview(b"")
_TO_LEAVE = "tensors to leave"


class Sender:
    """`send` from any thread; an error that happens later is raised by the next call (SPEC K3)."""

    def __init__(self, link: Link, limit: int, peer_timeout: float, clock: Clock) -> None:
        self._link, self._peer_timeout, self._clock = link, peer_timeout, clock
        self.send_queue = SendQueue(limit)
        self._unreported: deque[RefengineError] = deque()
        self._end: RefengineError | None = None
        self._close_by: float | None = None
        self._partial_write: PartialWrite | None = None
        self._awaited: bool | None = None
        self._leaving = False
        """True once the goodbye is what is written."""
        self._replies: list[bytes] = []
        self._wakeup = Wakeup()
        self._thread = ServingThread(self._run, name="refengine-pipe")

    def start(self) -> None:
        """Start the thread, once."""
        if self._thread.ident is None:
            self._thread.start()

    # -- any thread -------------------------------------------------------------------------

    def send(
        self, nbytes: int, take_snapshot: Callable[[], Snapshot], timeout: float | None
    ) -> None:
        """Hand in what `take_snapshot` returns, once there is room for so many bytes.

        An error of the snapshot's own is raised, and handed in, in its place (SPEC K3).
        """
        self.check()
        transfer = Transfer(nbytes)
        try:
            self.send_queue.ask(transfer)
            self._wakeup.wake()
            self._await_room(transfer, timeout)
            self.send_queue.hand_in(transfer, self._made(transfer, take_snapshot))
            self._wakeup.wake()
            if self._end is not None:
                raise self._end  # the thread may have ended since
        except BaseException:
            if not isinstance(transfer.snapshot, Failure):
                self.send_queue.withdraw(transfer)
            self._wakeup.wake()
            raise

    def check(self) -> None:
        """Raise an error not reported yet, or the one for which nothing can be sent any more."""
        if self._unreported:
            try:
                raise self._unreported[0]
            finally:
                self._unreported.popleft()
        if self._close_by is not None:
            raise PipeClosed("this rank")
        if self._end is not None:
            raise self._end

    def close(self, seconds: float) -> None:
        """Send what was handed in, for at most that long; raise an error not reported yet."""
        if self._close_by is None:
            self._close_by = self._clock() + seconds
        self._wakeup.wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(seconds + _POLL_INTERVAL)
        self._finish()
        if self._unreported:
            try:
                raise self._unreported[0]
            finally:
                self._unreported.clear()

    def close_now(self) -> None:
        """Close without handing anything over."""
        with contextlib.suppress(RefengineError):
            self.close(0.0)

    def _made(self, transfer: Transfer, take_snapshot: Callable[[], Snapshot]) -> Snapshot:
        try:
            return take_snapshot()
        except Exception as error:
            self.send_queue.hand_in(transfer, Failure(_describe(error)))
            raise

    def _await_room(self, transfer: Transfer, timeout: float | None) -> None:
        left = Deadline(timeout, self._clock).remaining
        while not self.send_queue.has(transfer):
            if self._end is not None:
                raise self._end
            seconds = left()
            if seconds is not None and seconds <= 0:
                if transfer.considered:
                    raise self._no_room(timeout or 0)
                try:
                    transfer.news.get(timeout=_POLL_INTERVAL)
                except Empty:
                    raise self._no_room(timeout or 0) from None
                continue
            try:
                transfer.news.get(
                    timeout=_POLL_INTERVAL if seconds is None else min(seconds, _POLL_INTERVAL)
                )
            except Empty:
                if not self._thread.is_alive():  # struck where it could not report its end
                    self._finish()

    def _no_room(self, timeout: float) -> DeadlinePassed:
        role, used = self._link.peer.role, self.send_queue.nbytes()
        return DeadlinePassed(f"room: {used} bytes are not yet sent to {role}", timeout)

    # -- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._end is None:
                self._guarded_step()
        finally:
            self._finish()

    def _guarded_step(self) -> None:
        """Catch all errors of a step; CPython guards no line of a `try` right within another."""
        try:
            self._step()
        except BaseException as error:  # of any kind: nothing else would report it
            self._fail(error)

    def _step(self) -> None:
        current, partial = self.send_queue.advance(), self._partial_write
        if partial is not None:
            self._write_some(partial, current)
        elif current is not None:
            self._begin(current)
        elif self._close_by is not None:
            self._leaving = True  # first: what is handed in from now on is not what is written
            self._partial_write = PartialWrite(
                self._packed(Header(Kind.BYE, self.send_queue.number)), _NOTHING
            )
        else:
            self._sleep(select.POLLIN)

    def _begin(self, transfer: Transfer) -> None:
        snapshot = transfer.snapshot
        assert snapshot is not None
        header = self._packed(snapshot.header(self.send_queue.number))
        self._awaited = None
        self._partial_write = PartialWrite(header, snapshot.follows())

    def _write_some(self, partial: PartialWrite, current: Transfer | None) -> None:
        """Write as much as goes; after the last of it, end the transfer."""
        rest = partial.rest()
        if len(rest):
            try:
                append_atomically(partial.written, self._link.sock.send, rest)
            except BlockingIOError:
                self._sleep(select.POLLIN | select.POLLOUT)
            except OSError as error:
                self._hear()  # the receiver may have sent the reason
                self._break(error)
        elif self._leaving or current is None or current.snapshot is None:
            self._leave()
        elif self._awaited is None:
            self._awaited = current.snapshot.beside()
        elif self._awaited:
            self._sleep(select.POLLIN)
        else:
            self.send_queue.done()
            self._partial_write = None

    def _sleep(self, events: int) -> None:
        seconds = None if self._close_by is None else self._close_by - self._clock()
        if seconds is not None and seconds <= 0:
            lost = TensorsLost(self.send_queue.unsent(), "the time for closing is over")
            self._conclude(lost)
            return
        found = ready(self._link.sock, events, seconds, self._wakeup.fileno())
        self._wakeup.clear()
        if found & ~select.POLLOUT:
            self._hear()

    def _packed(self, header: Header) -> bytes:
        return header.pack(self._link.session)

    # -- what the receiver says ---------------------------------------------------------------

    def _hear(self) -> None:
        while self._end is None:
            have = sum(map(len, self._replies))
            if have == REPLY_BYTES:
                self._handle_reply(*parse_reply(b"".join(self._replies)))
                self._replies = []
                continue
            try:
                append_atomically(self._replies, self._link.sock.recv, REPLY_BYTES - have)
            except BlockingIOError:
                return
            except OSError as error:
                self._break(error)
                return
            if not self._replies[-1]:
                self._break(None)

    def _handle_reply(self, kind: int, number: int, text: str) -> None:
        role = self._link.peer.role
        if kind == Reply.DONE and number == self.send_queue.number:
            self._awaited = False
        elif kind == Reply.REFUSED:
            self._conclude(MetadataRefused(f"{role} says: {text}"))
        elif kind == Reply.BYE:
            self._conclude(PipeClosed(role))

    def _break(self, error: OSError | None) -> None:
        peer = self._link.peer
        if isinstance(error, TimeoutError):
            self._conclude(PeerSilent(peer.role, self._peer_timeout, _TO_LEAVE))
        else:
            self._conclude(PeerDied(peer.role, peer.pid, _TO_LEAVE))

    # -- ends -------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """Fail a transfer: alone, if nothing of it has left; else nothing can follow it."""
        number = self.send_queue.number
        told = SendFailed(number, _describe(error))
        told.__cause__ = error
        current = self.send_queue.current
        if current is None or self._partial_write is not None:
            self._conclude(told)
            return
        self._unreported.append(told)
        failure = Failure(told.reason)
        self._awaited = False  # nothing is beside it
        header = self._packed(failure.header(number))
        self._partial_write = PartialWrite(header, failure.follows())

    def _conclude(self, error: RefengineError) -> None:
        """Let nothing be sent any more, because of this error.

        The next call raises it; `close`, too, if something was lost by it or is its fault.
        """
        if self._end is None:
            self._end = error  # first: a call that hands in after this sees it
            if self.send_queue.unsent() or isinstance(error, SendFailed | MetadataRefused):
                self._unreported.append(error)

    def _leave(self) -> None:
        """End, now that the goodbye has left: what was handed in meanwhile does not follow it."""
        self._end = PipeClosed("this rank")  # first, as above
        lost = self.send_queue.unsent()
        if lost:
            self._unreported.append(TensorsLost(lost, "this rank had said goodbye"))

    def _finish(self) -> None:
        """Wake every caller and release everything, whatever happened. May be called again."""
        if self._end is None and self._close_by is None:
            self._conclude(SendFailed(self.send_queue.number, "the pipe's thread has ended"))
        elif self._end is None:
            lost = TensorsLost(self.send_queue.unsent(), "the time for closing is over")
            self._conclude(lost)
        self.send_queue.end()
        self._partial_write = None
        self._link.close()
        self._wakeup.close()


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
