"""Where everything lies: no two words share bytes, no two parties' words a cache line."""

import itertools
import sys

import pytest

from refengine.base.cache_line import LINE
from refengine.errors import AttachFailed
from refengine.ring.layout import (
    CHUNK_SHIFT,
    NUMBER,
    PAGE,
    READERS_SLEEP,
    WRITER_SLEEPS,
    WRITER_STATE,
    Layout,
    chunk_views,
)

SHAPES = [Layout(1, 1, 1), Layout(2, 64, 3), Layout(55, 65, 2), Layout(56, 4096, 4)]


def _words(layout: Layout) -> dict[str, range]:
    """Every word and chunk with its bytes."""
    words = {"header": range(28), "readers sleep": range(READERS_SLEEP, READERS_SLEEP + 1)}
    for name, at in (("writer sleeps", WRITER_SLEEPS), ("writer state", WRITER_STATE)):
        words[name] = range(at, at + 1)
    for rank in range(layout.n_reader):
        at = layout.reader_state(rank)
        words[f"reader {rank}"] = range(at, at + 1)
    for slot in range(layout.max_chunks):
        number, written = layout.number_at(slot), layout.written_at(slot)
        words[f"number {slot}"] = range(number, number + 8)
        words[f"written {slot}"] = range(written, written + 1)
        for rank in range(layout.n_reader):
            at = layout.read_at(slot, rank)
            words[f"read {slot} {rank}"] = range(at, at + 1)
        at = layout.chunk_at(slot)
        words[f"chunk {slot}"] = range(at, at + layout.max_chunk_bytes)
    return words


@pytest.mark.parametrize("layout", SHAPES, ids=str)
def test_no_two_words_share_bytes_and_all_lie_inside(layout: Layout):
    ends = sorted((words.start, words.stop, name) for name, words in _words(layout).items())
    for (_, stop, one), (start, _, other) in itertools.pairwise(ends):
        assert stop <= start, (one, other)
    assert ends[-1][1] <= layout.total


@pytest.mark.parametrize("layout", SHAPES, ids=str)
def test_parties_states_and_slots_have_cache_lines_of_their_own(layout: Layout):
    lines = [READERS_SLEEP, WRITER_SLEEPS, WRITER_STATE]
    lines += [layout.reader_state(rank) for rank in range(layout.n_reader)]
    lines += [layout.number_at(slot) for slot in range(layout.max_chunks)]
    lines += [layout.chunk_at(slot) for slot in range(layout.max_chunks)]
    assert all(at % LINE == 0 for at in lines)
    assert len(set(lines)) == len(lines)
    assert layout.chunk_at(0) % PAGE == 0
    assert layout.total % PAGE == 0


@pytest.mark.parametrize("layout", SHAPES, ids=str)
def test_a_slots_flags_follow_its_number_and_take_no_line_more_than_they_need(layout: Layout):
    for slot in range(layout.max_chunks):
        flags = [layout.written_at(slot)]
        flags += [layout.read_at(slot, rank) for rank in range(layout.n_reader)]
        first = layout.number_at(slot) + 8
        assert flags == list(range(first, first + 1 + layout.n_reader))
    stride = layout.number_at(1) - layout.number_at(0)
    assert stride == -(-(9 + layout.n_reader) // LINE) * LINE
    assert layout.number_at(0) == layout.reader_state(layout.n_reader - 1) + LINE
    assert layout.chunk_at(1) - layout.chunk_at(0) == -(-layout.max_chunk_bytes // LINE) * LINE
    assert layout.total - layout.chunk_at(layout.max_chunks) < PAGE


def test_a_slots_chunk_is_the_one_that_its_number_names():
    layout = Layout(2, 100, 400)
    memory = memoryview(bytearray(layout.total))
    for slot, area in ((0, 2), (1, 0), (2, 399)):
        at = layout.number_at(slot)
        memory[at : at + 8] = (area << CHUNK_SHIFT | 12345).to_bytes(8, sys.byteorder)
        memory[at + 8 : at + 11] = b"\1\1\1"
        assert layout.chunk_of(memory, slot) == layout.chunk_at(area)


def test_a_number_word_holds_the_largest_number_beside_the_largest_chunk():
    word = (65535 << CHUNK_SHIFT) | NUMBER
    assert word == (1 << 64) - 1
    assert (word & NUMBER, word >> CHUNK_SHIFT) == (NUMBER, 65535)


def test_chunks_begin_where_the_layout_says():
    layout = Layout(1, 100, 3)
    memory = memoryview(bytearray(layout.total))
    for k, area in enumerate(chunk_views(layout, memory)):
        assert len(area) == 100
        area[0] = k + 1
        assert memory[layout.chunk_at(k)] == k + 1


@pytest.mark.parametrize("sizes", [(0, 64, 2), (1, 0, 2), (1, 64, 0), (-1, 64, 2)])
def test_a_ring_of_nothing_is_refused(sizes: tuple[int, int, int]):
    with pytest.raises(ValueError, match="at least one reader, byte and chunk"):
        Layout(*sizes)


def test_as_many_chunks_as_a_slot_can_name_are_allowed():
    assert Layout(1, 64, 65536).max_chunks == 65536


def test_memory_is_taken_for_a_ring_only_if_all_of_its_head_agrees():
    layout = Layout(2, 64, 3)
    memory = memoryview(bytearray(layout.total))
    layout.stamp(memory)
    layout.verify(memory, "x")
    for at in (0, 8, 12, 16, 24):
        memory[at] ^= 1
        with pytest.raises(AttachFailed):
            layout.verify(memory, "x")
        memory[at] ^= 1
    with pytest.raises(AttachFailed, match=r"bytes, .* needed"):
        layout.verify(memory[:-1], "x")
    layout.verify(memory, "x")
