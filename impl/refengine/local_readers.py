"""The writer's side of its local readers: ring, overflow socket, door, their deaths (SPEC 3)."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from .door import Door
from .encoding import Buffer, overflows, put, put_marker
from .keeping import Undo
from .liveness import Peer
from .overflow import PayloadSender
from .ownership import SOCKETS, new_directory, remove_directory, sweep
from .rendezvous import Rendezvous
from .ring import Ring
from .security import Keys
from .settings import Settings
from .vigil import EpollVigil


class LocalReaders:
    """Owns the names: segment, directory, sockets; all are gone once every reader is ready.

    `side` is the ring's writing half. Readers' slots follow the order of `ranks`.
    """

    def __init__(
        self,
        ranks: Sequence[int],
        max_chunk_bytes: int,
        max_chunks: int,
        keys: Keys,
        settings: Settings,
        vigil: EpollVigil,
        undo: Undo,
    ) -> None:
        self.ranks, self._vigil = tuple(ranks), vigil
        self._max_chunk_bytes = max_chunk_bytes
        sweep()
        ring = partial(
            Ring.create,
            memory=settings.memory,
            waiting=settings.waiting_for(len(ranks)),
            cells=settings.cells,
            fence=settings.fence,
        )
        self.ring = undo.made(Ring.drop, ring, len(ranks), max_chunk_bytes, max_chunks)
        self.side = self.ring.writer
        self._directory = undo.made(remove_directory, new_directory)
        self.door_path, self.overflow_path = (str(self._directory / name) for name in SOCKETS)
        readers_bell, own_bell = bells = (
            undo.made(os.close, os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK),
            undo.made(os.close, os.eventfd, 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK),
        )
        vigil.watch_bell(own_bell)
        self.ring.hear(vigil)
        self.side.ring_readers = lambda: os.eventfd_write(readers_bell, 1)
        address = "ipc://" + self.overflow_path
        self._payloads = undo.made(
            PayloadSender.drop, PayloadSender, address, settings.sockets, len(ranks)
        )
        Path(self.overflow_path).chmod(0o600)
        self._rendezvous = Rendezvous(self.ranks, keys)
        met = self._rendezvous, self._payloads, bells
        self._door = undo.made(
            Door.close, Door, self.door_path, *met, settings.sockets, self.has_left
        )

    def publish(self, buffers: Sequence[Buffer], total: int, chunk: memoryview) -> None:
        """Fill the chunk just claimed, or send an overflow payload and fill in its marker."""
        if overflows(total, self._max_chunk_bytes):
            payload_id, nbytes = self._payloads.send(buffers)  # first: a marker promises a payload
            self.side.open()
            put_marker(chunk, payload_id, nbytes)
        else:
            self.side.open()
            put(buffers, chunk, self._max_chunk_bytes - total - 1)
        self.side.publish()

    def arrive(self, left: Callable[[], float | None]) -> bool:
        """One round of arrivals, sleeping at most `left()`; True once all are there."""
        return self._door.wait(left, self._vigil.fileno())

    def missing(self) -> list[int]:
        """Ranks that have not arrived."""
        return self._rendezvous.missing()

    def go(self, gone: Callable[[int, Peer], None]) -> None:
        """Tell them that everybody is there; call `gone` for each that ends later."""
        self._door.tell_go()
        for rank in self.ranks:
            self._door.peers[rank].watch(self._vigil, lambda peer, rank=rank: gone(rank, peer))
        self._door.close()
        self._remove_names()

    def has_left(self, rank: int) -> bool:
        """Whether this reader closed cleanly."""
        return self.ring.reader_left(self.ranks.index(rank))

    def forget(self, rank: int) -> None:
        """Wait for this reader no more."""
        self.side.forget(self.ranks.index(rank))

    def part(self, seconds: float) -> None:
        """Hand payloads over, for at most that long, and say that we leave."""
        self._payloads.close(linger=seconds)
        self.ring.say_left()
        self.side.ring_readers()
        for peer in self._door.peers.values():
            peer.close()

    def _remove_names(self) -> None:
        self.ring.segment.unlink()
        remove_directory(self._directory)
