"""The writer's end of a queue: encode, claim, publish; hear of readers that go (SPEC 3)."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from .encoding import SMALLEST_TOTAL, Buffer, Encoder, encode_short, is_bare, total_of
from .end import End, countdown
from .errors import Busy, DeadlinePassed, PeerDied, QueueClosed
from .fragments import SOCKET, TURN, Pace, publish_in_pieces
from .handle import Handle
from .keeping import Undo
from .lines import Gone
from .liveness import Peer
from .local_readers import LocalReaders
from .remote_readers import RemoteReaders, body_of
from .ring import Ring
from .security import Keys
from .settings import Settings
from .waiting.strategy import Fault
from .warmth import Warmth
from .writing import LARGE, WriteSide, turn_of

_NEWS_EVERY = 0.001  # a busy writer looks for dead readers this often; an idle one at each call
_DYING = 0.05  # from a killed reader's hang-up to its death, for the signal in the error
_log = logging.getLogger(__name__)


class SendingEnd(End):
    """Local readers read a ring, remote ones are reached by lines; there may be none of either.

    With both, a message is published when its slot is; the lines follow, and what an exception
    kept from them is handed on by the next call (SPEC R9).
    """

    def __init__(
        self,
        n_reader: int,
        local_ranks: Sequence[int],
        max_chunk_bytes: int,
        max_chunks: int,
        host: str,
        settings: Settings,
        undo: Undo,
    ) -> None:
        super().__init__(settings.clock, undo)
        self._settings, self._n_reader = settings, n_reader
        keys = Keys.fresh()
        empty = Handle(n_reader, tuple(local_ranks), None, "", "", keys, silence=settings.silence)
        self._local: LocalReaders | None = None
        self._remote: RemoteReaders | None = None
        self.handle = empty
        vigil = self._vigil
        if local_ranks:
            local = self._local = LocalReaders(
                local_ranks, max_chunk_bytes, max_chunks, keys, settings, vigil, undo
            )
            paths = local.door_path, local.overflow_path
            self.handle = replace(empty, ring=local.ring.handle(), door=paths[0], overflow=paths[1])
        if empty.remote_reader_ranks:
            self._remote = RemoteReaders(
                host, empty.remote_reader_ranks, max_chunks, keys, settings, vigil, undo
            )
            self.handle = replace(self.handle, remote=self._remote.address)
        self._side = None if self._local is None else self._local.side
        self._encoder = Encoder(settings.limits)
        self._pace, self._slots = Pace(settings.clock, len(local_ranks)), max_chunks
        self._warmth = Warmth()
        self._inline_below = 0 if self._remote else max_chunk_bytes
        self._gone: set[int] = set()
        self._next_news = 0.0
        self._half: tuple[int, bytearray] | None = None
        """A message and its number: published to local readers, perhaps not to remote ones."""

    def enqueue(self, obj: object, timeout: float | None = None) -> None:
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
            main = encode_short(obj) if type(obj) is bytes else None
            buffers = self._encoder.encode(obj) if main is None else [main]
            if len(buffers) == 1:
                total = SMALLEST_TOTAL + len(buffers[0])
                if total < self._inline_below and side is not None:
                    if not side.send(buffers[0], timeout):
                        raise DeadlinePassed("a free slot", timeout or 0)
                    guard.release()
                    guard.inside = False
                    return
            else:
                total = total_of([len(b) for b in buffers])
            self._publish(buffers, total, timeout)
            guard.leave()
        except BaseException:
            guard.leave()
            raise

    def _publish(self, buffers: Sequence[Buffer], total: int, timeout: float | None) -> None:
        side = self._side
        if self._remote is not None or side is None:
            self._publish_far(buffers, total, timeout)
            return
        chooses = LARGE <= total < self._inline_below and len(buffers) > 1
        warm = not chooses or self._warmth.next()
        pieces = warm and self._in_pieces(side, buffers, total + 1, timeout)
        turn = TURN if pieces else _turn(buffers, total)
        chunk = side.claim(timeout, turn if warm else 0)
        if chunk is None:
            raise DeadlinePassed("a free slot", timeout or 0)
        start = self._clock()
        if pieces:
            piece = self._settings.pieces.of(side)
            publish_in_pieces(side, buffers, total + 1, chunk, piece, self._pace)
        else:
            self._publish_near(buffers, total, chunk)
        if chooses:
            waited = self._pace.waited if pieces else 0.0
            self._warmth.filled(warm, total, self._clock() - start - waited)

    def _in_pieces(
        self, side: WriteSide, buffers: Sequence[Buffer], nbytes: int, timeout: float | None
    ) -> bool:
        pieces, room = self._settings.pieces, self._inline_below
        if nbytes <= room:
            self._pace.begin(nbytes, timeout)
            return pieces.serve(nbytes, room) and not is_bare(buffers)
        self._pace.begin(nbytes, timeout, SOCKET)
        return pieces.span(nbytes, room, self._slots) and self._pace.is_kept(side)

    # -- with remote readers ----------------------------------------------------------------

    def _publish_near(self, buffers: Sequence[Buffer], total: int, chunk: memoryview) -> None:
        if self._local is not None:
            self._local.publish(buffers, total, chunk)

    def _publish_far(self, buffers: Sequence[Buffer], total: int, timeout: float | None) -> None:
        self._settle()
        remote, side = self._remote, self._side
        assert remote is not None
        left = countdown(timeout, self._clock)
        self._await_room(remote, left, timeout)
        body = body_of(buffers)
        if side is None:
            self._half = remote.posted, body  # from here on it is published
        else:
            chunk = side.claim(left(), _turn(buffers, total))
            if chunk is None:
                raise DeadlinePassed("a free slot", timeout or 0)
            self._half = side.number, body
            self._publish_near(buffers, total, chunk)
        self._settle()

    def _settle(self) -> None:
        """Hand on to remote readers what was published to local ones."""
        half, side, remote = self._half, self._side, self._remote
        if half is None or remote is None:
            return
        if side is None or side.settle() > half[0]:
            remote.post(*half)
        self._half = None

    def _await_room(
        self, remote: RemoteReaders, left: Callable[[], float | None], timeout: float | None
    ) -> None:
        while not remote.has_room():
            seconds = left()
            late = seconds is not None and seconds <= 0
            self._vigil.block(0 if late else seconds)
            self._hear_remote()
            fault = self._vigil.fault()
            if fault is not None:
                raise fault("a remote reader to take a message")
            if late and not remote.has_room():
                raise DeadlinePassed("a remote reader to take a message", timeout or 0)

    # -- arrivals and ends ------------------------------------------------------------------

    def _look_for_news(self) -> None:
        self._vigil.block(0)
        self._hear_remote()
        self._next_news = self._clock() + _NEWS_EVERY
        fault = self._vigil.fault()
        if fault is not None:
            raise fault("enqueue")

    def _hear_remote(self) -> None:
        if self._remote is not None:
            self._remote.news(self._remote_gone)

    def _arrive(self, left: Callable[[], float | None]) -> bool:
        local, remote = self._local, self._remote
        if not self._awaits_somebody():
            left = _no_time  # an exception struck the round in which all had come (R9)
        if local is None:
            self._vigil.block(left())
            complete = True
        else:
            complete = local.arrive(left)
            self._vigil.block(0)
        if remote is not None:
            refusal = remote.refusal()
            if refusal is not None:
                raise refusal
            complete = complete and not remote.missing()
            remote.news(self._remote_left_early)
        fault = self._vigil.fault()
        if fault is not None:
            raise fault(self._missing())
        if complete:
            if remote is not None:
                remote.go()
            if local is not None:
                local.go(self._local_gone)
        return complete

    def _awaits_somebody(self) -> bool:
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
            self._vigil.alarm(fault)
        if len(self._gone) == self._n_reader and self._vigil.lasting is None:
            self._vigil.alarm(fault)

    @property
    def ring(self) -> Ring | None:
        """The ring of its local readers."""
        return None if self._local is None else self._local.ring

    def _part(self, seconds: float) -> None:
        left = countdown(seconds, self._clock)
        if self._remote is not None:
            self._settle()
            self._remote.part(seconds * 0.6)  # and its goodbye gets a tenth of a second more
        if self._local is not None:
            self._local.part(max(0.0, (left() or 0.0) * 0.75))


def _no_time() -> float:
    return 0.0


def _death(peer: Peer) -> Fault:
    peer.is_dead(_DYING)
    role, pid, signal = peer.role, peer.pid, peer.signal()
    return lambda waiting_for: PeerDied(role, pid, waiting_for, signal)


def _all_closed(_: str) -> QueueClosed:
    return QueueClosed("every reader")


def _turn(buffers: Sequence[Buffer], total: int) -> int:
    return turn_of(total) if len(buffers) > 1 else 0
