"""A reader's end of a queue: copy a message, keep it until the caller has it (SPEC 3, R7, R9).

`Reader` is what every reader's end does; `LocalReader` takes from the ring, and gives slots back.
"""

import os
import select
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..base.buffer_pool import BufferPool
from ..base.cancel import EventLike
from ..base.cleanup import ReleaseStack, reproduce_error
from ..base.clock import poll_milliseconds
from ..base.endpoint import Endpoint
from ..base.liveness import Peer
from ..base.ownership import SHM, Owner, remove_if_orphan
from ..base.serialization import (
    FRAGMENT,
    INLINE,
    OVERFLOW,
    Raw,
    decode,
    loads,
    read_message,
    read_overflow_marker,
    read_single,
    split_message,
)
from ..errors import (
    AttachFailed,
    Busy,
    DeadlinePassed,
    MessagesLost,
    PeerDied,
    QueueClosed,
    Undecodable,
)
from ..ring.ring import Ring, RingHandle
from .chunking import Reassembler
from .handshake import Handle, HandshakeClient, hello_message
from .overflow import PayloadReceiver
from .settings import Settings


class Reader(Endpoint):
    """A reader. A message is copied, kept, its slot released, decoded, then returned.

    It is dropped from `_undelivered` only when the call returns: an exception in between leaves it
    to the next call (SPEC R9).
    """

    def __init__(self, handle: Handle, rank: int, settings: Settings, undo: ReleaseStack) -> None:
        super().__init__(settings.clock, undo)
        self.handle, self.rank = handle, rank
        self._undelivered: tuple[int, Raw] | None = None

    def dequeue(
        self,
        timeout: float | None = None,
        cancel: EventLike | None = None,
        indefinite: bool = False,
    ) -> Any:
        """Return the next message, or raise the error that says why there is none (`errors`)."""
        guard = self._guard
        if guard.held:
            guard.raise_busy("dequeue")
        watched = False
        given: tuple[int, Raw] | None = None
        try:
            if not guard.acquire(False):
                raise Busy("dequeue")
            guard.held = True
            if self.refusal_error is not None:
                raise self.refusal_error("dequeue")
            if cancel is not None or indefinite or self._waiter.in_call:
                watched = True
                self._waiter.begin_call(cancel, indefinite)
            else:
                self._waiter.warn_at = 0.0  # the minute of a call before is not this one's
            obj = self._next(timeout)
            if watched:
                self._waiter.end_call()
            given, self._undelivered = self._undelivered, None
            guard.release()
            guard.held = False
            return obj  # noqa: TRY300  an exception on the way out is one of those caught
        except BaseException:
            if given is not None:
                self._undelivered = given  # nobody got it: the next call gives it
            if watched:
                self._waiter.end_call()
            guard.exit()
            raise

    @property
    def ring(self) -> Ring | None:
        """The ring below, if this end has one."""
        return None

    @abstractmethod
    def say_hello(self) -> None:
        """Send the hello to the writer: the last step of attaching.

        An exception from outside comes before it, and the writer does not know of this end; or
        after attaching (SPEC R9).
        """

    @abstractmethod
    def _next(self, timeout: float | None) -> Any:
        """Return the next message, decoded; it is kept, and its slot released."""

    def _decode(self, number: int, raw: Raw) -> Any:
        try:
            return loads(raw[0]) if len(raw) == 1 else decode(raw)
        except BaseException as error:
            if reproduce_error(lambda: decode(raw)) is not type(error):
                raise  # it came from outside, or the next call tells: the message stays ours
            self._undelivered = None
            failure = Undecodable(number) if isinstance(error, Exception) else error
            vars(failure)["undecoded"] = raw[0]  # for whoever can make something of it
            raise failure from (error if failure is not error else None)

    def _refusal(self, waiting_for: str) -> Exception:
        fault = self._waiter.fault()
        return fault(waiting_for) if fault else QueueClosed("this end")

    def _missing(self) -> str:
        return "the writer's go"


_DYING = 0.2  # from a killed writer's hang-up to its death, on a slow machine
Left = Callable[[], float | None]


class LocalReader(Reader):
    """Attaches to the ring of a handle's queue as one of its local ranks."""

    def __init__(
        self, handle: Handle, rank: int, ring: RingHandle, settings: Settings, undo: ReleaseStack
    ) -> None:
        super().__init__(handle, rank, settings, undo)
        self._segment_name = ring.name
        attached = partial(
            Ring.attach,
            memory=settings.memory,
            waiting=settings.waiting_for(ring.n_reader),
            cells=settings.cells,
            fence=settings.fence,
        )
        index, greeting = handle.local_reader_ranks.index(rank), hello_message(rank, handle.keys)
        try:
            self._ring = undo.acquire(Ring.drop, attached, ring, index)
            self._handshake = undo.acquire(
                HandshakeClient.close, HandshakeClient, handle.door, greeting, settings.sockets
            )
        except (AttachFailed, OSError) as error:
            raise self._cannot_attach(error) from error
        self._peer = self._handshake.peer
        self._payloads = undo.acquire(
            PayloadReceiver.close, PayloadReceiver, settings.sockets, settings.clock
        )
        self._joined = False
        self._ring_reader = self._ring.reader
        self._ring.wait_with(self._waiter)
        self._peer.watch(self._waiter, self._writer_gone)
        self._loss_reported = False
        self._has_side_data = False  # pieces or a payload are held for the message
        self._memory = BufferPool()
        self._assembly = Reassembler(self._memory)

    def _next(self, timeout: float | None) -> Any:
        ring_reader, undelivered = self._ring_reader, self._undelivered
        if undelivered is not None:
            ring_reader.recover()  # it tells whether what is kept was given back
        if undelivered is None or undelivered[0] >= ring_reader.number:
            raw = self._copy(timeout)
            self._undelivered = undelivered = ring_reader.number, raw
            ring_reader.release_slot()
            if self._has_side_data:
                self._release_buffers()
        number, raw = undelivered
        return self._decode(number, raw)

    def _copy(self, timeout: float | None) -> Raw:
        """Return the next message's bytes; its slot is not yet released."""
        start = 0.0 if timeout is None else self._clock()
        seconds = timeout
        while True:
            if self._waiter.stopped:
                raise self._refusal("a message")
            chunk = self._ring_reader.claim(seconds)
            if chunk is None:
                raise DeadlinePassed("a message", timeout or 0)
            main = read_single(chunk)
            if main is not None:
                return [main]
            if chunk[0] == FRAGMENT:
                self._has_side_data = True
                whole = self._assembly.add(chunk)
                if whole is not None:
                    return split_message(whole)
                self._ring_reader.release_slot()
                seconds = None if timeout is None else start + timeout - self._clock()
                continue
            if chunk[0] == INLINE:
                return read_message(chunk, self._memory)
            self._has_side_data = True
            end = None if timeout is None else start + timeout
            raw = self._await_payload(read_overflow_marker(chunk)[0], end, timeout)
            if raw is not None:
                return raw
            self._skip_lost_messages()
            seconds = None if end is None else end - self._clock()

    def _await_payload(
        self, payload_id: int, end: float | None, timeout: float | None
    ) -> Raw | None:
        """Return the payload; None if the writer closed and it can no longer come."""
        while True:
            self._waiter.block(0)
            if (raw := self._payloads.find(payload_id)) is not None:
                return raw
            fault = self._waiter.fault()
            gone = self._waiter.permanent_error
            if fault is not None and (fault is not gone or self._payloads.is_empty()):
                if fault is gone and self._ring.writer_left():
                    return None
                raise fault("an overflow payload")
            seconds = None if end is None else end - self._clock()
            if seconds is not None and seconds <= 0:
                raise DeadlinePassed("an overflow payload", timeout or 0)
            seconds = self._waiter.poll_interval(seconds)
            if gone is not None:
                self._payloads.wait_gone(1.0 if seconds is None else seconds)
            else:
                self._payloads.wait(self._waiter.fileno(), seconds)

    def _skip_lost_messages(self) -> None:
        """Consume a message whose payload will not come; report once how many such there are."""
        told, self._loss_reported = self._loss_reported, True
        count = sum(chunk[0] == OVERFLOW for chunk in self._ring_reader.unread_chunks())
        self._ring_reader.release_slot()
        if not told:
            raise MessagesLost(count)

    def _release_buffers(self) -> None:
        """Release pieces and payload: the message is kept, or was given up."""
        self._assembly.clear()
        self._payloads.forget()
        self._has_side_data = False

    @property
    def ring(self) -> Ring | None:
        """The ring it reads."""
        return self._ring

    def say_hello(self) -> None:
        """See `Reader`."""
        self._handshake.say_hello()

    def _handshake_step(self, left: Left) -> bool:
        if self._handshake.go:
            return True
        self._waiter.block(0)
        if self._waiter.stopped:
            raise self._refusal(self._missing())
        try:
            news = self._handshake.hear()
        except PeerDied:
            self._writer_gone(self._peer)
            raise self._refusal(self._missing()) from None
        if self._handshake.welcomed and not self._joined:
            self._join(*self._handshake.welcome())
        elif not news:
            self._sleep(left())
        return False

    def _sleep(self, seconds: float | None) -> None:
        poller = select.poll()
        poller.register(self._peer.link.fileno(), select.POLLIN)
        poller.register(self._waiter.fileno(), select.POLLIN)
        poller.poll(None if seconds is None else poll_milliseconds(seconds))

    def _join(self, nonce: bytes, wakeups: list[int]) -> None:
        """Answer a welcome; repeatable after an exception (SPEC R9)."""
        own_wakeup, writer_wakeup = wakeups
        self._waiter.watch_wakeup(own_wakeup)
        self._ring.reader.wake_writer = lambda: os.eventfd_write(writer_wakeup, 1)
        self._payloads.connect("ipc://" + self.handle.overflow, nonce)  # the writer says go to it
        self._joined = True

    def _writer_gone(self, peer: Peer) -> None:
        if self._ring.writer_left():
            self._waiter.set_error(lambda _: QueueClosed("the writer"))
            return
        peer.is_dead(_DYING)
        role, pid, signal = peer.role, peer.pid, peer.signal()
        self._waiter.set_error(lambda waiting_for: PeerDied(role, pid, waiting_for, signal))
        self._remove_orphans()

    def _cannot_attach(self, error: Exception) -> Exception:
        owner = Owner.named(self._segment_name)
        if owner is not None and owner.is_gone():
            self._remove_orphans()
            return PeerDied("writer", owner.pid, "attaching")
        if isinstance(error, AttachFailed):
            return error
        return AttachFailed(self.handle.door, str(error))

    def _remove_orphans(self) -> None:
        remove_if_orphan(SHM / self._segment_name)
        remove_if_orphan(Path(self.handle.door).parent)

    def _shutdown(self, seconds: float) -> None:
        self._remove_orphans()  # if it took longer than that to die
        self._ring.say_left()
        self._ring.reader.wake_writer()
