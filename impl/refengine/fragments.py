"""A large message as several ring messages, so that it passes through memory the caches hold.

Copied whole, 23 MiB leave the caches before the reader comes to them, and two copies share the
memory's bandwidth. In pieces the reader takes each from a cache: about twice as fast.

The readers' pace sets the pieces: after each `piece` bytes, if every reader has read all there
is, what was filled is published and the next slot begun; if not, filling goes on, to the end if
need be. So a message takes one slot more than it would, at most, while its readers are elsewhere.
Readers that are nearly there are waited for, no longer than the copy itself takes (`Pace`).
Readers that have nothing to do get small pieces, and so the message after less time. While they
are busy larger ones are better: a small one lies in its reader's own cache when its chunk is
written again, which then takes twice as long.

A message too large for one slot goes this way, too, if every slot is free when it begins and they
can hold it all: then nothing has to be waited for. It is many times as fast as a socket.

A piece is `[2][offset, 8][bytes, 8][of, 8][at, 2]`, and its bytes from `at` on: such that the large
buffer after the pickle is aligned in every chunk and in the reader's memory, wherever pieces end.
Else an array that was received and is sent on lies a few bytes before its place in the chunk,
modulo a page, and some processors copy that ten times slower (`rep movsb`, below 1 MiB).

A reader keeps what it has until the last; whatever begins anew (an ordinary message, an offset of
0) says that the writer gave up the message before (SPEC X1, R9).
"""

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .clock import Clock
from .encoding import FRAGMENT, Buffer, header_of
from .layout import LINE
from .recycling import Recycler
from .writing import WriteSide

_HEAD = struct.Struct(">BQQQH")
_DATA = LINE
"""Where a piece's bytes begin in its chunk, if it is not the first."""
_BEFORE = _DATA + LINE - 1
"""The most that may lie before them."""

TURN = 3
"""Chunks that pieces go round: one is filled, one is read, one has left its reader's own cache."""
COPYING, SOCKET = 8e9, 1e9
"""Bytes a second, roughly."""
_MOST_MISSES, _MOST_BEFORE_SOCKET = 6, 1


@dataclass(frozen=True)
class Pieces:
    """From how many bytes on a message is sent in pieces, and of how many each is at least.

    `soon`: the same while all readers wait, which begin the sooner; `room`: what a slot must have
    at least if a message is to go over several.
    """

    least: int = 2 << 20
    piece: int = 2 << 20
    soon: int = 512 << 10
    room: int = 512 << 10

    def of(self, side: WriteSide) -> int:
        """How many bytes each is to have at least, as readers are now."""
        return self.soon if side.all_read() else self.piece

    def serve(self, nbytes: int, max_chunk_bytes: int) -> bool:
        """Whether a message of that many bytes goes in pieces: the last may have to hold all."""
        return nbytes >= self.least and nbytes + _BEFORE <= max_chunk_bytes

    def span(self, nbytes: int, max_chunk_bytes: int, slots: int) -> bool:
        """Whether it may go in pieces over several free slots."""
        room = max_chunk_bytes - _BEFORE
        return nbytes >= self.least and room >= self.room and -(-nbytes // room) < slots


class Pace:
    """Lets readers catch up, a while in all for each message; not, for a time, if they did not."""

    def __init__(self, clock: Clock, readers: int = 1) -> None:
        self._clock, self._readers = clock, readers
        self.waited = 0.0
        """Seconds that the message begun last has waited."""
        self._left = 0.0
        self._misses = self._sit_out = 0
        self._most_misses = _MOST_MISSES

    def begin(self, nbytes: int, timeout: float | None, speed: float = COPYING) -> None:
        """A message of so many bytes, which must be sent within `timeout` seconds.

        `speed`: bytes a second of the way it takes if readers do not catch up, one after another.
        """
        self._left = self.waited = 0.0
        # What readers did not catch up with once is no reason to use a socket for long.
        self._most_misses = _MOST_MISSES if speed >= COPYING else _MOST_BEFORE_SOCKET
        if self._sit_out:
            self._sit_out -= 1
            return
        seconds = nbytes / speed * self._readers
        self._left = seconds if timeout is None else min(seconds, timeout)

    def is_kept(self, side: WriteSide) -> bool:
        """Whether every reader has read all there is, now or very soon."""
        if side.all_read():
            return True
        if self._left <= 0:
            return False
        start = self._clock()
        end = start + self._left
        while True:
            os.sched_yield()
            now = self._clock()
            if side.all_read():
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


def publish_in_pieces(
    side: WriteSide,
    buffers: Sequence[Buffer],
    nbytes: int,
    chunk: memoryview,
    piece: int,
    pace: Pace,
) -> None:
    """Fill the chunk just claimed, and as many further ones as the readers' pace allows."""
    pour = _pourer(buffers)
    small = _before_large(buffers)
    start, at, first = 0, _DATA + -small % LINE, small + piece
    while True:
        side.open()
        room, filled = chunk[at:], 0
        most = min(len(room), nbytes - start)
        while filled < most and not (filled and pace.is_kept(side)):
            filled += pour(room[filled : filled + (piece if start or filled else first)])
        _HEAD.pack_into(chunk, 0, FRAGMENT, start, filled, nbytes, at)
        side.publish()
        start, at = start + filled, _DATA
        if start == nbytes:
            return
        following = side.claim(0, TURN)
        assert following is not None  # they were free when the message began, or it fits here
        chunk = following


def _before_large(buffers: Sequence[Buffer]) -> int:
    """Bytes of the message before its first buffer after the pickle."""
    head = len(header_of(0, len(buffers), 0)) + len(buffers[0])
    return head + len(header_of(1, len(buffers), 0)) if len(buffers) > 1 else 0


def _pourer(buffers: Sequence[Buffer]) -> Callable[[memoryview], int]:
    """Fills what it is given with the message's next bytes; says how many there were."""
    parts = _parts(buffers)
    rest = memoryview(b"")

    def pour(into: memoryview) -> int:
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

    return pour


def _parts(buffers: Sequence[Buffer]) -> Iterator[memoryview]:
    """The message as `put` would lay it out, without laying it out."""
    for index, buffer in enumerate(buffers):
        yield memoryview(header_of(index, len(buffers), len(buffer)))
        yield memoryview(buffer).cast("B")


class Assembly:
    """A reader's side: the message whose pieces are coming."""

    def __init__(self, memory: Recycler) -> None:
        self._memory = memory
        self._whole: memoryview | None = None

    def add(self, chunk: memoryview) -> memoryview | None:
        """Copy a piece out (again, if need be); the whole message if it was the last."""
        _, start, count, nbytes, at = _HEAD.unpack_from(chunk, 0)
        if start == 0:
            shift = at - _DATA  # so that it is aligned as it is in the chunk
            self._whole = self._memory.take(shift + nbytes)[shift:]
        elif self._whole is None:
            return None  # the rest of a message that was given up
        self._whole[start : start + count] = chunk[at : at + count]
        return self._whole if start + count == nbytes else None

    def clear(self) -> None:
        """The message is complete and kept elsewhere, or was given up."""
        self._whole = None
