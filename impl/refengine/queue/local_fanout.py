"""The writer's side of its local readers: ring, overflow socket, handshake, deaths (SPEC 3)."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ..base.cleanup import ReleaseStack
from ..base.event_waiter import EpollWaiter
from ..base.liveness import Peer
from ..base.ownership import SOCKETS, new_directory, remove_directory, remove_stale_names
from ..base.security import Keys
from ..base.serialization import Buffer, overflows, write_message, write_overflow_marker
from ..ring.ring import Ring
from .handshake import HandshakeServer, HandshakeState
from .overflow import PayloadSender
from .settings import Settings


class LocalFanout:
    """Sends to local readers. It owns the names (segment, directory, sockets) until all are ready.

    `ring_writer` is the ring's writing half. Readers' slots follow the order of `ranks`.
    """

    def __init__(
        self,
        ranks: Sequence[int],
        max_chunk_bytes: int,
        max_chunks: int,
        keys: Keys,
        settings: Settings,
        waiter: EpollWaiter,
        undo: ReleaseStack,
    ) -> None:
        self.ranks, self._waiter = tuple(ranks), waiter
        self._max_chunk_bytes = max_chunk_bytes
        remove_stale_names()
        ring = partial(
            Ring.create,
            memory=settings.memory,
            waiting=settings.waiting_for(len(ranks)),
            cells=settings.cells,
            fence=settings.fence,
        )
        self.ring = undo.acquire(Ring.drop, ring, len(ranks), max_chunk_bytes, max_chunks)
        self.ring_writer = self.ring.writer
        self._directory = undo.acquire(remove_directory, new_directory)
        self.handshake_path, self.overflow_path = (str(self._directory / name) for name in SOCKETS)
        readers_wakeup, own_wakeup = wakeups = (
            undo.acquire(os.close, os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK),
            undo.acquire(os.close, os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK),
        )
        waiter.watch_wakeup(own_wakeup)
        self.ring.wait_with(waiter)
        self.ring_writer.wake_readers = lambda: os.eventfd_write(readers_wakeup, 1)
        address = "ipc://" + self.overflow_path
        self._payloads = undo.acquire(
            PayloadSender.drop, PayloadSender, address, settings.sockets, len(ranks)
        )
        Path(self.overflow_path).chmod(0o600)
        self._state = HandshakeState(self.ranks, keys)
        met = self._state, self._payloads, wakeups
        self._handshake = undo.acquire(
            HandshakeServer.close,
            HandshakeServer,
            self.handshake_path,
            *met,
            settings.sockets,
            self.has_left,
        )

    def publish(self, buffers: Sequence[Buffer], total: int, chunk: memoryview) -> None:
        """Fill the chunk just claimed, or send an overflow payload and fill in its marker."""
        if overflows(total, self._max_chunk_bytes):
            payload_id, nbytes = self._payloads.send(buffers)  # first: a marker promises a payload
            self.ring_writer.begin_write()
            write_overflow_marker(chunk, payload_id, nbytes)
        else:
            self.ring_writer.begin_write()
            write_message(buffers, chunk, self._max_chunk_bytes - total - 1)
        self.ring_writer.publish()

    def handshake_step(self, left: Callable[[], float | None]) -> bool:
        """Do one round of the handshake, sleeping at most `left()`; return whether it is done."""
        return self._handshake.wait(left, self._waiter.fileno())

    def missing(self) -> list[int]:
        """Return the ranks that have not arrived."""
        return self._state.missing()

    def go(self, gone: Callable[[int, Peer], None]) -> None:
        """Send the go to every reader; call `gone` for each that ends later."""
        self._handshake.send_go()
        for rank in self.ranks:
            self._handshake.peers[rank].watch(
                self._waiter, lambda peer, rank=rank: gone(rank, peer)
            )
        self._handshake.close()
        self._remove_names()

    def has_left(self, rank: int) -> bool:
        """Return whether this reader closed cleanly."""
        return self.ring.reader_left(self.ranks.index(rank))

    def forget(self, rank: int) -> None:
        """Wait for this reader no more."""
        self.ring_writer.forget(self.ranks.index(rank))

    def shutdown(self, seconds: float) -> None:
        """Hand payloads over, for at most `seconds`, and store a clean close."""
        self._payloads.close(linger=seconds)
        self.ring.say_left()
        self.ring_writer.wake_readers()
        for peer in self._handshake.peers.values():
            peer.close()

    def _remove_names(self) -> None:
        self.ring.segment.unlink()
        remove_directory(self._directory)
