"""Buffers come back once nobody has them, and not a moment earlier."""

import numpy as np
import pytest

from refengine.base.buffer_pool import BufferPool


def where(view: memoryview) -> int:
    return np.frombuffer(view, np.uint8).ctypes.data


def test_a_buffer_that_nobody_has_is_used_again():
    memory = BufferPool()
    first = where(memory.take(1 << 20))
    assert where(memory.take(1 << 20)) == first
    assert where(memory.take((1 << 20) - 5)) == first


def test_a_view_an_array_and_a_part_of_one_keep_their_buffer():
    memory = BufferPool()
    view = memory.take(1 << 20)
    keep = [view, np.frombuffer(memory.take(1 << 20), np.uint8), view[10:20]]
    array = np.ndarray((100,), np.uint8, memory.take(1 << 20))[::2]
    places = {where(memory.take(1 << 20)) for _ in range(3)}
    assert len(places) == 1
    assert places.isdisjoint({where(view), keep[1].ctypes.data, array.ctypes.data})


def test_the_content_that_somebody_keeps_does_not_change():
    memory, kept = BufferPool(), []
    for n in range(20):
        view = memory.take(1 << 16)
        view[:] = bytes([n]) * (1 << 16)
        if n % 3 == 0:
            kept.append((n, np.frombuffer(view, np.uint8)))
        del view
    assert all((array == n).all() for n, array in kept)


def test_the_length_is_exact_and_the_memory_writable():
    memory = BufferPool()
    for nbytes in (0, 1, 4095, 4097, (1 << 20) + 1):
        view = memory.take(nbytes)
        assert len(view) == nbytes
        view[:] = bytes(nbytes)


def test_what_is_kept_for_later_is_bounded():
    memory = BufferPool(most=1 << 20)
    held = [memory.take(1 << 18) for _ in range(40)]
    assert memory._held <= 1 << 20
    for size in range(1 << 12, 1 << 19, 12345):
        memory.take(size)
        assert memory._held <= 1 << 20
    del held


def test_a_buffer_larger_than_the_bound_is_given_and_not_kept():
    memory = BufferPool(most=1 << 16)
    assert len(memory.take(1 << 20)) == 1 << 20
    assert memory._held == 0


@pytest.mark.parametrize(
    ("nbytes", "size"),
    [
        (0, 4096),
        (1, 4096),
        (4096, 4096),
        (4097, 8192),
        (65_536, 65_536),
        (65_537, 73_728),
        (1 << 20, 1 << 20),
        ((1 << 20) + 1, (1 << 20) + (1 << 17)),
        ((1 << 21) - 1, 1 << 21),
    ],
)
def test_sizes_are_rounded_to_eight_steps_a_doubling(nbytes: int, size: int):
    memory = BufferPool()
    memory.take(nbytes)
    assert (list(memory._by_size), memory._held) == ([size], size)


def test_sizes_used_last_are_kept():
    memory = BufferPool(most=3 << 20)
    for size in (1, 1.5):
        memory.take(int(size * (1 << 20)))
    memory.take(1 << 20)  # again: now the other one is the oldest
    memory.take(2 << 20)
    assert list(memory._by_size) == [1 << 20, 2 << 20]
    assert memory._held == 3 << 20


def test_exactly_as_much_as_allowed_is_kept_and_one_buffer_at_a_time_goes():
    memory = BufferPool(most=4 << 20)
    held = [memory.take(1 << 20) for _ in range(4)]
    assert memory._held == 4 << 20
    assert [len(each) for each in memory._by_size.values()] == [4]
    memory.take(2 << 20)
    assert {size: len(each) for size, each in memory._by_size.items()} == {1 << 20: 2, 2 << 20: 1}
    assert memory._held == 4 << 20
    del held


def test_what_is_kept_unasked_is_an_eighth_of_a_gigabyte():
    assert BufferPool()._most == 128 << 20
