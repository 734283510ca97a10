"""The writer's end of a queue: encode, claim, publish; hear of readers that go (SPEC 3)."""

import logging
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from .door import Door
from .encoding import (
    SMALLEST_TOTAL,
    Buffer,
    Encoder,
    overflows,
    put,
    put_marker,
    total_of,
)
from .end import End
from .errors import Busy, DeadlinePassed, PeerDied, QueueClosed
from .handle import Handle
from .liveness import Peer
from .overflow import PayloadSender
from .ownership import new_directory, sweep
from .rendezvous import Rendezvous
from .ring import Ring
from .security import Keys
from .settings import Settings
from .waiting.strategy import Fault

_NEWS_EVERY = 0.001  # a busy writer looks for dead readers this often; an idle one at each call
_DYING = 0.05  # from a killed reader's hang-up to its death, for the signal in the error
_log = logging.getLogger(__name__)


class SendingEnd(End):
    """Owns the names: segment, directory, sockets; all are gone once every reader is ready."""

    def __init__(
        self, ranks: Sequence[int], max_chunk_bytes: int, max_chunks: int, settings: Settings
    ) -> None:
        super().__init__(settings.clock)
        self._ranks, self._settings = tuple(ranks), settings
        with self._undo as undo:
            sweep()
            self._ring = Ring.create(
                len(ranks),
                max_chunk_bytes,
                max_chunks,
                memory=settings.memory,
                waiting=settings.waiting_for(len(ranks)),
                cells=settings.cells,
                fence=settings.fence,
            )
            undo.callback(self._ring.drop)
            self._meet()
            self._undo = undo.pop_all()
        self._side = self._ring.writer
        self._encoder = Encoder(settings.limits)
        self._max_chunk_bytes = max_chunk_bytes
        self._gone: dict[int, Peer] = {}
        self._next_news = 0.0

    def _meet(self) -> None:
        undo, sockets = self._undo, self._settings.sockets
        self._directory = new_directory()
        undo.callback(self._remove_names)
        keys = Keys.fresh()
        door, overflow = (str(self._directory / n) for n in ("door", "overflow"))
        self.handle = Handle(
            len(self._ranks), self._ranks, self._ring.handle(), door, overflow, keys
        )
        self._bells = tuple(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for _ in range(2))
        for fd in self._bells:
            undo.callback(os.close, fd)
        readers_bell, own_bell = self._bells
        self._vigil.watch_bell(own_bell)
        self._ring.hear(self._vigil)
        self._ring.writer.ring_readers = lambda: os.eventfd_write(readers_bell, 1)
        self._payloads = PayloadSender("ipc://" + overflow, sockets)
        undo.callback(self._payloads.close, 0.0)
        Path(overflow).chmod(0o600)
        self._rendezvous = Rendezvous(self._ranks, keys)
        self._door = Door(
            door,
            self._rendezvous,
            self._payloads,
            (readers_bell, own_bell),
            sockets,
            lambda rank: self._ring.reader_left(self._ranks.index(rank)),
        )
        undo.callback(self._door.close)

    def enqueue(self, obj: object, timeout: float | None) -> None:
        """Publish `obj` to every reader; all or nothing (SPEC X1, R9)."""
        guard, side = self._guard, self._side
        if guard.inside:
            guard.refuse("enqueue")
        try:
            if not guard.acquire(False):
                raise Busy("enqueue")
            guard.inside = True
            if self.obstacle is not None:
                raise self.obstacle("enqueue")
            if self._vigil.alarmed or self._clock() >= self._next_news:
                self._look_for_news()
            buffers = self._encoder.encode(obj)
            if len(buffers) == 1:
                total = SMALLEST_TOTAL + len(buffers[0])
            else:
                total = total_of([len(b) for b in buffers])
            chunk = side.claim(timeout, len(buffers) > 1)
            if chunk is None:
                raise DeadlinePassed("a free slot", timeout or 0)
            if overflows(total, self._max_chunk_bytes):
                self._publish_overflow(buffers, chunk)
            else:
                side.open()
                put(buffers, chunk)
                side.publish()
        finally:
            guard.leave()

    def _publish_overflow(self, buffers: Sequence[Buffer], chunk: memoryview) -> None:
        payload_id, nbytes = self._payloads.send(buffers)  # first: a marker promises a payload
        self._side.open()
        put_marker(chunk, payload_id, nbytes)
        self._side.publish()

    def _look_for_news(self) -> None:
        self._vigil.block(0)
        self._next_news = self._clock() + _NEWS_EVERY
        fault = self._vigil.fault()
        if fault is not None:
            raise fault("enqueue")

    def _arrive(self, left: Callable[[], float | None]) -> bool:
        complete = self._door.wait(left, self._vigil.fileno())
        self._vigil.block(0)
        fault = self._vigil.fault()
        if fault is not None:
            raise fault(self._missing())
        if complete:
            for index, rank in enumerate(self._ranks):
                self._door.peers[rank].watch(self._vigil, self._farewell(index))
            self._door.close()
            self._remove_names()
        return complete

    def _missing(self) -> str:
        return f"readers {self._rendezvous.missing()} to arrive"

    def _farewell(self, index: int) -> Callable[[Peer], None]:
        return lambda peer: self._reader_gone(index, peer)

    def _reader_gone(self, index: int, peer: Peer) -> None:
        self._gone[index] = peer
        clean = self._ring.reader_left(index)
        if not clean:
            _log.warning("%s (pid %d) is gone without a goodbye", peer.role, peer.pid)
            if self._settings.reader_policy == "continue":
                self._side.forget(index)
            else:
                self._vigil.alarm(_death(peer))
        if len(self._gone) == len(self._ranks) and self._vigil.lasting is None:
            self._vigil.alarm(_all_closed if clean else _death(peer))

    def _remove_names(self) -> None:
        self._ring.segment.unlink()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _part(self, seconds: float) -> None:
        self._payloads.close(linger=seconds * 0.75)
        self._ring.say_left()
        self._ring.writer.ring_readers()
        for peer in self._door.peers.values():
            peer.close()


def _death(peer: Peer) -> Fault:
    peer.is_dead(_DYING)
    role, pid, signal = peer.role, peer.pid, peer.signal()
    return lambda waiting_for: PeerDied(role, pid, waiting_for, signal)


def _all_closed(_: str) -> QueueClosed:
    return QueueClosed("every reader")
