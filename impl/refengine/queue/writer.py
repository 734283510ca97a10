"""The writer's end of a queue: encode, claim, publish; notice readers that end (SPEC 3)."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..base.cleanup import ReleaseStack
from ..base.clock import Deadline
from ..base.endpoint import Endpoint
from ..base.event_waiter import Fault
from ..base.liveness import Peer
from ..base.security import Keys
from ..base.serialization import (
    SMALLEST_TOTAL,
    Buffer,
    Encoder,
    encode_short,
    is_plain_bytes,
    total_of,
)
from ..errors import Busy, DeadlinePassed, PeerDied, QueueClosed
from ..ring.ring import Ring
from ..ring.writer import LARGE, RingWriter, reuse_distance
from ..transport import Gone
from .chunking import REUSE_DISTANCE, SOCKET_SPEED, HotChunkPolicy, ReaderPace, write_chunked
from .handshake import Handle
from .local_fanout import LocalFanout
from .remote_fanout import RemoteFanout, body_of
from .settings import Settings

_POLL_PEERS_EVERY = (
    0.001  # a busy writer looks for dead readers this often; an idle one at each call
)
_DYING = 0.05  # from a killed reader's hang-up to its death, for the signal in the error
_log = logging.getLogger(__name__)


class Writer(Endpoint):
    """Sends to local readers by a ring, to remote ones by sessions; there may be none of either.

    With both, a message is published when its slot is; the sessions follow, and a message that an
    exception kept from them is handed on by the next call (SPEC R9).
    """

    def __init__(
        self,
        n_reader: int,
        local_ranks: Sequence[int],
        max_chunk_bytes: int,
        max_chunks: int,
        host: str,
        settings: Settings,
        undo: ReleaseStack,
    ) -> None:
        super().__init__(settings.clock, undo)
        self._settings, self._n_reader = settings, n_reader
        keys = Keys.fresh()
        empty = Handle(
            n_reader, tuple(local_ranks), None, "", "", keys, peer_timeout=settings.peer_timeout
        )
        self._local: LocalFanout | None = None
        self._remote: RemoteFanout | None = None
        self.handle = empty
        waiter = self._waiter
        if local_ranks:
            local = self._local = LocalFanout(
                local_ranks, max_chunk_bytes, max_chunks, keys, settings, waiter, undo
            )
            paths = local.handshake_path, local.overflow_path
            self.handle = replace(empty, ring=local.ring.handle(), door=paths[0], overflow=paths[1])
        if empty.remote_reader_ranks:
            self._remote = RemoteFanout(
                host, empty.remote_reader_ranks, max_chunks, keys, settings, waiter, undo
            )
            self.handle = replace(self.handle, remote=self._remote.address)
        self._ring_writer = None if self._local is None else self._local.ring_writer
        self._encoder = Encoder(settings.limits)
        self._pace, self._slots = ReaderPace(settings.clock, len(local_ranks)), max_chunks
        self._hot_chunks = HotChunkPolicy()
        self._inline_below = 0 if self._remote else max_chunk_bytes
        self._gone: set[int] = set()
        self._next_poll = 0.0
        self._unsent_remote: tuple[int, bytearray] | None = None
        """Number and body of a message: published to local readers, perhaps not to remote ones."""

    def enqueue(self, obj: object, timeout: float | None = None) -> None:
        """Publish `obj` to every reader; all or nothing (SPEC X1, R9)."""
        guard, ring_writer = self._guard, self._ring_writer
        if guard.held:
            guard.raise_busy("enqueue")
        try:
            if not guard.acquire(False):
                raise Busy("enqueue")
            guard.held = True
            if self.refusal_error is not None:
                raise self.refusal_error("enqueue")
            if self._waiter.has_error or self._clock() >= self._next_poll:
                self._poll_peers()
            main = encode_short(obj) if type(obj) is bytes else None
            buffers = self._encoder.encode(obj) if main is None else [main]
            if len(buffers) == 1:
                total = SMALLEST_TOTAL + len(buffers[0])
                if total < self._inline_below and ring_writer is not None:
                    if not ring_writer.send(buffers[0], timeout):
                        raise DeadlinePassed("a free slot", timeout or 0)
                    guard.release()
                    guard.held = False
                    return
            else:
                total = total_of([len(b) for b in buffers])
            self._publish(buffers, total, timeout)
            guard.exit()
        except BaseException:
            guard.exit()
            raise

    def _publish(self, buffers: Sequence[Buffer], total: int, timeout: float | None) -> None:
        ring_writer = self._ring_writer
        if self._remote is not None or ring_writer is None:
            self._publish_remote(buffers, total, timeout)
            return
        chooses = LARGE <= total < self._inline_below and len(buffers) > 1
        warm = not chooses or self._hot_chunks.use_hot_chunks()
        chunked = warm and self._is_chunked(ring_writer, buffers, total + 1, timeout)
        turn = REUSE_DISTANCE if chunked else _distance(buffers, total)
        chunk = ring_writer.claim(timeout, turn if warm else 0)
        if chunk is None:
            raise DeadlinePassed("a free slot", timeout or 0)
        start = self._clock()
        if chunked:
            piece = self._settings.chunking.bytes_each(ring_writer)
            write_chunked(ring_writer, buffers, total + 1, chunk, piece, self._pace)
        else:
            self._publish_local(buffers, total, chunk)
        if chooses:
            waited = self._pace.waited if chunked else 0.0
            self._hot_chunks.record(warm, total, self._clock() - start - waited)

    def _is_chunked(
        self, ring_writer: RingWriter, buffers: Sequence[Buffer], nbytes: int, timeout: float | None
    ) -> bool:
        config, room = self._settings.chunking, self._inline_below
        if nbytes <= room:
            self._pace.begin(nbytes, timeout)
            several = self._slots > 1  # the next slot must be another than the one just filled
            return several and config.applies(nbytes, room) and not is_plain_bytes(buffers)
        self._pace.begin(nbytes, timeout, SOCKET_SPEED)
        return config.spans_slots(nbytes, room, self._slots) and self._pace.readers_caught_up(
            ring_writer
        )

    # -- with remote readers ----------------------------------------------------------------

    def _publish_local(self, buffers: Sequence[Buffer], total: int, chunk: memoryview) -> None:
        if self._local is not None:
            self._local.publish(buffers, total, chunk)

    def _publish_remote(self, buffers: Sequence[Buffer], total: int, timeout: float | None) -> None:
        self._flush_remote()
        remote, ring_writer = self._remote, self._ring_writer
        assert remote is not None
        left = Deadline(timeout, self._clock).remaining
        self._await_room(remote, left, timeout)
        body = body_of(buffers)
        if ring_writer is None:
            self._unsent_remote = remote.posted, body  # from here on it is published
        else:
            chunk = ring_writer.claim(left(), _distance(buffers, total))
            if chunk is None:
                raise DeadlinePassed("a free slot", timeout or 0)
            self._unsent_remote = ring_writer.number, body
            self._publish_local(buffers, total, chunk)
        self._flush_remote()

    def _flush_remote(self) -> None:
        """Hand on to remote readers a message that was published to local ones."""
        half, ring_writer, remote = self._unsent_remote, self._ring_writer, self._remote
        if half is None or remote is None:
            return
        if ring_writer is None or ring_writer.recover() > half[0]:
            remote.post(*half)
        self._unsent_remote = None

    def _await_room(
        self, remote: RemoteFanout, left: Callable[[], float | None], timeout: float | None
    ) -> None:
        while not remote.has_room():
            seconds = left()
            late = seconds is not None and seconds <= 0
            self._waiter.block(0 if late else seconds)
            self._hear_remote()
            fault = self._waiter.fault()
            if fault is not None:
                raise fault("a remote reader to take a message")
            if late and not remote.has_room():
                raise DeadlinePassed("a remote reader to take a message", timeout or 0)

    # -- arrivals and ends ------------------------------------------------------------------

    def _poll_peers(self) -> None:
        # Of the call that now begins: one that follows a sleep comes by here.
        self._waiter.warn_at = 0.0
        self._waiter.block(0)
        self._hear_remote()
        self._next_poll = self._clock() + _POLL_PEERS_EVERY
        fault = self._waiter.fault()
        if fault is not None:
            raise fault("enqueue")

    def _hear_remote(self) -> None:
        if self._remote is not None:
            self._remote.news(self._remote_gone)

    def _handshake_step(self, left: Callable[[], float | None]) -> bool:
        local, remote = self._local, self._remote
        if not self._awaits_readers():
            left = _no_time  # an exception struck the round in which all had come (R9)
        if local is None:
            self._waiter.block(left())
            complete = True
        else:
            complete = local.handshake_step(left)
            self._waiter.block(0)
        if remote is not None:
            refusal = remote.refusal()
            if refusal is not None:
                raise refusal
            complete = complete and not remote.missing()
            remote.news(self._remote_left_early)
        fault = self._waiter.fault()
        if fault is not None:
            raise fault(self._missing())
        if complete:
            if remote is not None:
                remote.go(self._remote_gone)
            if local is not None:
                local.go(self._local_gone)
        return complete

    def _awaits_readers(self) -> bool:
        if self._remote is not None and self._remote.has_news():
            return False
        return bool(self._absent())

    def _missing(self) -> str:
        return f"readers {self._absent()} to arrive"

    def _absent(self) -> list[int]:
        missing = self._local.missing() if self._local else []
        missing += self._remote.missing() if self._remote else []
        return sorted(missing)

    def _remote_left_early(self, rank: int, how: Gone) -> None:
        raise how.error(f"reader {rank}", "the rendezvous")

    def _local_gone(self, rank: int, peer: Peer) -> None:
        clean = self._local is not None and self._local.has_left(rank)
        fault = _all_closed if clean else _death(peer)
        if not clean:
            _log.warning("%s (pid %d) is gone without a goodbye", peer.role, peer.pid)
            if self._settings.reader_policy == "continue" and self._local is not None:
                self._local.forget(rank)
        self._reader_gone(rank, clean, fault)

    def _remote_gone(self, rank: int, how: Gone) -> None:
        role = f"reader {rank}"
        if how.kind != "closed":
            _log.warning("%s is gone without a goodbye: %s", role, how.kind)
        clean = how.kind == "closed"
        self._reader_gone(rank, clean, _all_closed if clean else lambda w: how.error(role, w))

    def _reader_gone(self, rank: int, clean: bool, fault: Fault) -> None:
        self._gone.add(rank)
        if not clean and self._settings.reader_policy == "raise":
            self._waiter.set_error(fault)
        if len(self._gone) == self._n_reader and self._waiter.permanent_error is None:
            self._waiter.set_error(fault)

    @property
    def ring(self) -> Ring | None:
        """Ring of the local readers, if there are any."""
        return None if self._local is None else self._local.ring

    def _shutdown(self, seconds: float) -> None:
        left = Deadline(seconds, self._clock).remaining
        if self._remote is not None:
            self._flush_remote()
            self._remote.shutdown(seconds * 0.6)  # and its goodbye gets a tenth of a second more
        if self._local is not None:
            self._local.shutdown(max(0.0, (left() or 0.0) * 0.75))


def _no_time() -> float:
    return 0.0


def _death(peer: Peer) -> Fault:
    peer.is_dead(_DYING)
    role, pid, signal = peer.role, peer.pid, peer.signal()
    return lambda waiting_for: PeerDied(role, pid, waiting_for, signal)


def _all_closed(_: str) -> QueueClosed:
    return QueueClosed("every reader")


def _distance(buffers: Sequence[Buffer], total: int) -> int:
    return reuse_distance(total) if len(buffers) > 1 else 0
