"""Pieces by the numbers: what each holds, how long readers are waited for, what is kept (R9)."""

import os
from typing import Any

import pytest

from refengine.base.serialization import total_of, write_message
from refengine.queue.chunking import (
    _HEAD,
    COPY_SPEED,
    SOCKET_SPEED,
    ChunkingConfig,
    ReaderPace,
    write_chunked,
)


class Side:
    """Slots that are there when they are asked for."""

    def __init__(self, chunk_bytes: int, *, read: bool = True) -> None:
        self.chunk_bytes, self.read = chunk_bytes, read
        self.log: list[Any] = []
        self.chunks = [self.fresh()]

    def fresh(self) -> memoryview:
        return memoryview(bytearray(self.chunk_bytes))

    def all_read(self) -> bool:
        return self.read

    def begin_write(self) -> None:
        self.log.append("open")

    def publish(self) -> None:
        self.log.append("publish")

    def claim(self, timeout: float | None, large: bool = False) -> memoryview:
        self.log.append(("claim", timeout, large))
        self.chunks.append(self.fresh())
        return self.chunks[-1]


class Keeping:
    """Readers that keep up, or do not."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)

    def readers_caught_up(self, _: Any) -> bool:
        return self.answers.pop(0) if self.answers else True


MESSAGE = b"main", bytes(range(200)), b"", b"tail" * 25
NBYTES = total_of([len(b) for b in MESSAGE]) + 1
SMALL = 3 + 4 + len(b"main") + 4
"""Bytes before the first buffer after the pickle."""


def sent(side: Side, pace: Any, piece: int = 50) -> list[tuple[int, int, int, int, int]]:
    """Each piece's head."""
    write_chunked(side, MESSAGE, NBYTES, side.chunks[0], piece, pace)
    return [_HEAD.unpack_from(chunk, 0) for chunk in side.chunks]


def whole() -> bytes:
    chunk = memoryview(bytearray(NBYTES))
    write_message(MESSAGE, chunk)
    return bytes(chunk)


def test_each_piece_says_where_it_begins_and_how_long_the_whole_is():
    side = Side(1000)
    heads = sent(side, Keeping())
    assert heads[0] == (2, 0, SMALL + 50, NBYTES, 64 + 64 - SMALL)
    assert [start for _, start, *_ in heads] == [0, *range(SMALL + 50, NBYTES, 50)]
    assert sum(head[2] for head in heads) == NBYTES
    assert {head[4] for head in heads[1:]} == {64}
    parts = [bytes(c[head[4] :][: head[2]]) for c, head in zip(side.chunks, heads, strict=True)]
    assert b"".join(parts) == whole()
    steps = ["open", "publish", ("claim", 0, 3)] * len(heads)
    assert side.log == steps[:-1]


def test_a_message_of_one_buffer_begins_at_the_line():
    side = Side(1000)
    write_chunked(side, [b"x" * 300], 307, side.chunks[0], 100, Keeping())
    assert [_HEAD.unpack_from(chunk, 0)[1:3] for chunk in side.chunks][:2] == [(0, 100), (100, 100)]
    assert _HEAD.unpack_from(side.chunks[0], 0)[4] == 64


def test_a_piece_ends_where_its_slot_does():
    side = Side(64 + 120)
    heads = sent(side, Keeping(*[False] * 100))
    assert [head[2] for head in heads] == [71, 120, 120, NBYTES - 311]


def test_small_slots_are_not_spanned():
    assert ChunkingConfig(least=1, room=873).spans_slots(1, 1000, 9)
    assert not ChunkingConfig(least=1, room=874).spans_slots(1, 1000, 9)


def test_readers_that_wait_get_smaller_pieces():
    assert (ChunkingConfig().least, ChunkingConfig().room) == (2 << 20, 512 << 10)
    side: Any = Side(1000)
    for waiting, piece in ((True, 512 << 10), (False, 2 << 20)):
        side.all_read = lambda waiting=waiting: waiting
        assert ChunkingConfig().bytes_each(side) == piece
    assert (COPY_SPEED, SOCKET_SPEED) == (8e9, 1e9)
    assert ChunkingConfig().applies(2 << 20, 4 << 20)
    assert not ChunkingConfig().applies((2 << 20) - 1, 4 << 20)


class Clock:
    """A second for each yield; the readers are there after so many."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int = 10**9) -> None:
        self.now, self.after = 0.0, after
        monkeypatch.setattr(os, "sched_yield", self.tick)

    def tick(self) -> None:
        self.now += 1.0

    def __call__(self) -> float:
        return self.now

    def all_read(self) -> bool:
        return self.now >= self.after


@pytest.mark.parametrize(("timeout", "waited"), [(2.0, 2.0), (9.0, 5.0), (0.0, 0.0), (-1.0, 0.0)])
def test_no_deadline_is_overstepped(monkeypatch: pytest.MonkeyPatch, timeout: float, waited: float):
    clock = Clock(monkeypatch)
    pace: Any = ReaderPace(clock)
    pace.begin(int(5 * COPY_SPEED), timeout)
    assert not pace.readers_caught_up(clock)
    assert clock.now == waited
    assert pace.waited == waited
    pace.begin(int(5 * COPY_SPEED), timeout)
    assert pace.waited == 0.0


def test_what_was_waited_is_gone_for_the_rest_of_the_message(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch, after=2)
    pace: Any = ReaderPace(clock)
    pace.begin(int(5 * COPY_SPEED), None)
    assert pace.readers_caught_up(clock)
    assert (pace._left, pace.waited) == (3.0, 2.0)
    clock.after = 10**9
    assert not pace.readers_caught_up(clock)
    assert clock.now == 5.0


def test_misses_are_sat_out_longer_and_longer_until_one_comes(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    pace: Any = ReaderPace(clock)

    def sat_out() -> int:
        """How many messages are begun without patience after the next miss."""
        pace.begin(int(COPY_SPEED), None)
        assert not pace.readers_caught_up(clock)
        count = 0
        while True:
            pace.begin(int(COPY_SPEED), None)
            if pace._left:
                return count
            before = clock.now
            assert not pace.readers_caught_up(clock)
            assert clock.now == before
            count += 1

    assert [sat_out() for _ in range(8)] == [2, 4, 8, 16, 32, 64, 64, 64]
    clock.after = int(clock.now) + 1
    pace.begin(int(3 * COPY_SPEED), None)
    assert pace.readers_caught_up(clock)
    clock.after = 10**9
    pace._left = 0.0
    assert sat_out() == 2
