"""A local reader's end: take from the ring, copy, give back; hear of the writer's end (SPEC 3)."""

import os
import select
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .door import Knock
from .encoding import FRAGMENT, INLINE, OVERFLOW, Raw, marker, split, take, take_one
from .errors import AttachFailed, DeadlinePassed, MessagesLost, PeerDied, QueueClosed
from .fragments import Assembly
from .handle import Handle
from .keeping import Undo
from .liveness import Peer
from .overflow import PayloadReceiver
from .ownership import SHM, Owner, remove_if_orphan
from .recycling import Recycler
from .rendezvous import hello
from .ring import Ring, RingHandle
from .settings import Settings
from .taking import TakingEnd

_DYING = 0.2  # from a killed writer's hang-up to its death, on a slow machine
Left = Callable[[], float | None]


class ReceivingEnd(TakingEnd):
    """Attaches to the ring of a handle's queue as one of its local ranks."""

    def __init__(
        self, handle: Handle, rank: int, ring: RingHandle, settings: Settings, undo: Undo
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
        index, greeting = handle.local_reader_ranks.index(rank), hello(rank, handle.keys)
        try:
            self._ring = undo.made(Ring.drop, attached, ring, index)
            self._knock = undo.made(Knock.close, Knock, handle.door, greeting, settings.sockets)
        except (AttachFailed, OSError) as error:
            raise self._cannot_attach(error) from error
        self._peer = self._knock.peer
        self._payloads = undo.made(
            PayloadReceiver.close, PayloadReceiver, settings.sockets, settings.clock
        )
        self._joined = False
        self._side = self._ring.reader
        self._ring.hear(self._vigil)
        self._peer.watch(self._vigil, self._writer_gone)
        self._lost_told = False
        self._beside = False  # pieces or a payload are held for the message
        self._memory = Recycler()
        self._assembly = Assembly(self._memory)

    def _next(self, timeout: float | None) -> Any:
        side, kept = self._side, self._kept
        if kept is not None:
            side.settle()  # it tells whether what is kept was given back
        if kept is None or kept[0] >= side.number:
            raw = self._copy(timeout)
            self._kept = kept = side.number, raw
            side.done()
            if self._beside:
                self._let_go()
        number, raw = kept
        return self._decode(number, raw)

    def _copy(self, timeout: float | None) -> Raw:
        """The next message's bytes, its slot not yet given back."""
        start = 0.0 if timeout is None else self._clock()
        seconds = timeout
        while True:
            if self._vigil.stopped:
                raise self._refusal("a message")
            chunk = self._side.claim(seconds)
            if chunk is None:
                raise DeadlinePassed("a message", timeout or 0)
            main = take_one(chunk)
            if main is not None:
                return [main]
            if chunk[0] == FRAGMENT:
                self._beside = True
                whole = self._assembly.add(chunk)
                if whole is not None:
                    return split(whole)
                self._side.done()
                seconds = None if timeout is None else start + timeout - self._clock()
                continue
            if chunk[0] == INLINE:
                return take(chunk, self._memory)
            self._beside = True
            end = None if timeout is None else start + timeout
            raw = self._await_payload(marker(chunk)[0], end, timeout)
            if raw is not None:
                return raw
            self._lose()
            seconds = None if end is None else end - self._clock()

    def _await_payload(
        self, payload_id: int, end: float | None, timeout: float | None
    ) -> Raw | None:
        """The payload; None if the writer closed and it can no longer come."""
        while True:
            self._vigil.block(0)
            if (raw := self._payloads.find(payload_id)) is not None:
                return raw
            fault = self._vigil.fault()
            gone = self._vigil.lasting
            if fault is not None and (fault is not gone or self._payloads.is_empty()):
                if fault is gone and self._ring.writer_left():
                    return None
                raise fault("an overflow payload")
            seconds = None if end is None else end - self._clock()
            if seconds is not None and seconds <= 0:
                raise DeadlinePassed("an overflow payload", timeout or 0)
            seconds = self._vigil.slice(seconds)
            if gone is not None:
                self._payloads.wait_gone(1.0 if seconds is None else seconds)
            else:
                self._payloads.wait(self._vigil.fileno(), seconds)

    def _lose(self) -> None:
        """Consume a message whose payload will not come; tell once how many such there are."""
        told, self._lost_told = self._lost_told, True
        count = sum(chunk[0] == OVERFLOW for chunk in self._side.waiting_chunks())
        self._side.done()
        if not told:
            raise MessagesLost(count)

    def _let_go(self) -> None:
        """The message is kept, or was given up: what it came out of is not needed any more."""
        self._assembly.clear()
        self._payloads.forget()
        self._beside = False

    @property
    def ring(self) -> Ring | None:
        """The ring it reads."""
        return self._ring

    def say_hello(self) -> None:
        """See `TakingEnd`."""
        self._knock.say_hello()

    def _arrive(self, left: Left) -> bool:
        if self._knock.go:
            return True
        self._vigil.block(0)
        if self._vigil.stopped:
            raise self._refusal(self._missing())
        try:
            news = self._knock.hear()
        except PeerDied:
            self._writer_gone(self._peer)
            raise self._refusal(self._missing()) from None
        if self._knock.welcomed and not self._joined:
            self._join(*self._knock.welcome())
        elif not news:
            self._sleep(left())
        return False

    def _sleep(self, seconds: float | None) -> None:
        poller = select.poll()
        poller.register(self._peer.link.fileno(), select.POLLIN)
        poller.register(self._vigil.fileno(), select.POLLIN)
        poller.poll(None if seconds is None else max(0.0, seconds) * 1000)

    def _join(self, nonce: bytes, bells: list[int]) -> None:
        """What a welcome is answered with. Struck, it is done again (SPEC R9)."""
        own_bell, writers_bell = bells
        self._vigil.watch_bell(own_bell)
        self._ring.reader.ring_writer = lambda: os.eventfd_write(writers_bell, 1)
        self._payloads.connect("ipc://" + self.handle.overflow, nonce)  # the writer says go to it
        self._joined = True

    def _writer_gone(self, peer: Peer) -> None:
        if self._ring.writer_left():
            self._vigil.alarm(lambda _: QueueClosed("the writer"))
            return
        peer.is_dead(_DYING)
        role, pid, signal = peer.role, peer.pid, peer.signal()
        self._vigil.alarm(lambda waiting_for: PeerDied(role, pid, waiting_for, signal))
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

    def _part(self, seconds: float) -> None:
        self._remove_orphans()  # if it took longer than that to die
        self._ring.say_left()
        self._ring.reader.ring_writer()
