"""A large message as several ring messages, so that it passes through memory the caches hold.

Copied whole, 23 MiB leave the caches before the reader comes to them, and two copies share the
memory's bandwidth. In pieces the reader takes each from a cache: about twice as fast.

The readers' pace sets the pieces: after each `piece` bytes, if every reader has read all there
is, what was filled is published and the next slot begun; if not, filling goes on, to the end if
need be. So a message takes one slot more than it would, at most, while its readers are elsewhere.
Readers that are nearly there are waited for, no longer than the copy itself takes (`ReaderPace`).
Readers that have nothing to do get small pieces, and so the message after less time. While they
are busy larger ones are better: a small one lies in its reader's own cache when its chunk is
written again, which then takes twice as long.

A message too large for one slot goes this way, too, if every slot is free when it begins and they
can hold it all: then nothing has to be waited for. It is many times as fast as a socket.

A piece is `[2][offset, 8][bytes, 8][of, 8][at, 2]`, and its bytes from `at` on: such that the large
buffer after the pickle is aligned in every chunk and in the reader's memory, wherever pieces end.
Else an array that was received and is sent on lies a few bytes before its place in the chunk,
modulo a page, and some processors copy that ten times slower (`rep movsb`, below 1 MiB).

A reader keeps the pieces until the last one; an ordinary message, or an offset of 0, shows that the
writer gave up the message before (SPEC X1, R9).
"""

import os
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..base.buffer_pool import BufferPool
from ..base.cache_line import LINE
from ..base.clock import Clock
from ..base.serialization import FRAGMENT, Buffer, buffer_header
from ..ring.writer import RingWriter

_ENOUGH = 5e9
"""Bytes a second at which the other way is not tried."""
_BETTER = 2.0
"""Factor of speed by which the other way must be faster to be chosen."""
_LATEST = 4
"""Messages of which the fastest counts: an interrupted writer fills slowly."""
_STAYS = 64
"""Messages between two tries of the other way."""


class HotChunkPolicy:
    """One writer's choice: large messages through few chunks, which caches hold, or round the ring.

    The first way is up to three times as fast for most of the time. But a machine was seen to
    change, for seconds, to a state in which it takes twice as long as the second: as if writer and
    reader did not share a cache then, and each cache line of such a chunk had to be fetched from
    the other's. No interface says which state it is: so the choice goes by how fast chunks are
    filled.
    """

    def __init__(self) -> None:
        self._settled = True
        self._speeds = deque[float](maxlen=_LATEST)
        self._left = _LATEST

    def use_hot_chunks(self) -> bool:
        """Return whether the next message is to go through chunks that caches hold."""
        tries = not self._left and not (self._settled and max(self._speeds) >= _ENOUGH)
        return self._settled ^ tries

    def record(self, warm: bool, nbytes: int, seconds: float) -> None:
        """Record a message that went that way: `nbytes` of it were filled in `seconds`."""
        speed = nbytes / seconds if seconds > 0 else float("inf")
        if warm == self._settled:
            self._speeds.append(speed)
            self._left = max(0, self._left - 1)
            return
        self._left = _STAYS
        if speed > _BETTER * max(self._speeds):
            self._settled = warm
            self._speeds.append(speed)


_HEAD = struct.Struct(">BQQQH")
_DATA = LINE
"""Offset of a piece's bytes in its chunk, if it is not the first piece."""
_BEFORE = _DATA + LINE - 1
"""Largest offset of a piece's bytes."""

REUSE_DISTANCE = 3
"""Chunks that pieces go round: one is filled, one is read, one has left its reader's own cache."""
COPY_SPEED, SOCKET_SPEED = 8e9, 1e9
"""Bytes a second, roughly."""
_MOST_MISSES, _MOST_BEFORE_SOCKET = 6, 1


@dataclass(frozen=True)
class ChunkingConfig:
    """Sizes in bytes: a message of `least` or more is sent in pieces of at least `piece`.

    `soon`: least size of a piece while all readers wait, which begin the sooner; `room`: least room
    of a slot for a message to go over several slots.
    """

    least: int = 2 << 20
    piece: int = 2 << 20
    soon: int = 512 << 10
    room: int = 512 << 10

    def bytes_each(self, writer: RingWriter) -> int:
        """Return the least bytes of a piece, as readers are now."""
        return self.soon if writer.all_read() else self.piece

    def applies(self, nbytes: int, max_chunk_bytes: int) -> bool:
        """Return whether a message of that size goes in pieces: the last may have to hold all."""
        return nbytes >= self.least and nbytes + _BEFORE <= max_chunk_bytes

    def spans_slots(self, nbytes: int, max_chunk_bytes: int, slots: int) -> bool:
        """Return whether a message of that size may go in pieces over several free slots."""
        room = max_chunk_bytes - _BEFORE
        return nbytes >= self.least and room >= self.room and -(-nbytes // room) < slots


class ReaderPace:
    """Waits for readers to catch up, a limited time for each message.

    If they did not catch up, the next messages do not wait for them.
    """

    def __init__(self, clock: Clock, readers: int = 1) -> None:
        self._clock, self._readers = clock, readers
        self.waited = 0.0
        """Seconds that the message begun last has waited."""
        self._left = 0.0
        self._misses = self._sit_out = 0
        self._most_misses = _MOST_MISSES

    def begin(self, nbytes: int, timeout: float | None, speed: float = COPY_SPEED) -> None:
        """Begin a message of `nbytes`, which must be sent within `timeout` seconds.

        `speed`: bytes a second of the way it takes if readers do not catch up, one after another.
        """
        self._left = self.waited = 0.0
        # What readers did not catch up with once is no reason to use a socket for long.
        self._most_misses = _MOST_MISSES if speed >= COPY_SPEED else _MOST_BEFORE_SOCKET
        if self._sit_out:
            self._sit_out -= 1
            return
        seconds = nbytes / speed * self._readers
        self._left = seconds if timeout is None else min(seconds, timeout)

    def readers_caught_up(self, writer: RingWriter) -> bool:
        """Return whether every reader has read all there is, now or very soon."""
        if writer.all_read():
            return True
        if self._left <= 0:
            return False
        start = self._clock()
        end = start + self._left
        while True:
            os.sched_yield()
            now = self._clock()
            if writer.all_read():
                self._left = end - now
                self.waited += now - start
                self._misses = 0
                return True
            if now >= end:
                self._left = 0.0
                self.waited += now - start
                self._misses = min(self._misses + 1, self._most_misses)
                self._sit_out = 1 << self._misses
                return False


def write_chunked(
    writer: RingWriter,
    buffers: Sequence[Buffer],
    nbytes: int,
    chunk: memoryview,
    piece: int,
    pace: ReaderPace,
) -> None:
    """Fill the chunk just claimed, and as many further ones as the readers' pace allows."""
    fill = _byte_source(buffers)
    small = _before_large(buffers)
    start, at, first = 0, _DATA + -small % LINE, small + piece
    while True:
        writer.begin_write()
        room, filled = chunk[at:], 0
        most = min(len(room), nbytes - start)
        while filled < most and not (filled and pace.readers_caught_up(writer)):
            filled += fill(room[filled : filled + (piece if start or filled else first)])
        _HEAD.pack_into(chunk, 0, FRAGMENT, start, filled, nbytes, at)
        writer.publish()
        start, at = start + filled, _DATA
        if start == nbytes:
            return
        following = writer.claim(0, REUSE_DISTANCE)
        assert following is not None  # they were free when the message began, or it fits here
        chunk = following


def _before_large(buffers: Sequence[Buffer]) -> int:
    """Return the bytes of the message before its first buffer after the pickle."""
    head = len(buffer_header(0, len(buffers), 0)) + len(buffers[0])
    return head + len(buffer_header(1, len(buffers), 0)) if len(buffers) > 1 else 0


def _byte_source(buffers: Sequence[Buffer]) -> Callable[[memoryview], int]:
    """Return a function that fills a view with the message's next bytes and returns the count."""
    parts = _parts(buffers)
    rest = memoryview(b"")

    def fill(into: memoryview) -> int:
        nonlocal rest
        filled = 0
        while filled < len(into):
            while not rest:
                following = next(parts, None)
                if following is None:
                    return filled
                rest = following
            count = min(len(rest), len(into) - filled)
            into[filled : filled + count] = rest[:count]
            rest = rest[count:]
            filled += count
        return filled

    return fill


def _parts(buffers: Sequence[Buffer]) -> Iterator[memoryview]:
    """Yield the parts of the message in the form that `write_message` gives it."""
    for index, buffer in enumerate(buffers):
        yield memoryview(buffer_header(index, len(buffers), len(buffer)))
        yield memoryview(buffer).cast("B")


class Reassembler:
    """A reader's side: the message whose pieces are arriving."""

    def __init__(self, memory: BufferPool) -> None:
        self._memory = memory
        self._whole: memoryview | None = None

    def add(self, chunk: memoryview) -> memoryview | None:
        """Copy a piece out (idempotent); return the whole message if it was the last piece."""
        _, start, count, nbytes, at = _HEAD.unpack_from(chunk, 0)
        if start == 0:
            shift = at - _DATA  # so that it is aligned as it is in the chunk
            self._whole = self._memory.take(shift + nbytes)[shift:]
        elif self._whole is None:
            return None  # the rest of a message that was given up
        self._whole[start : start + count] = chunk[at : at + count]
        return self._whole if start + count == nbytes else None

    def clear(self) -> None:
        """Drop the message: it is complete and kept elsewhere, or was given up."""
        self._whole = None
