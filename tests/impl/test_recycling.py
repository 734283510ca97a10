"""Buffers come back once nobody has them, and not a moment earlier."""

import numpy as np

from refengine.recycling import Recycler


def where(view: memoryview) -> int:
    return np.frombuffer(view, np.uint8).ctypes.data


def test_a_buffer_that_nobody_has_is_used_again():
    memory = Recycler()
    first = where(memory.take(1 << 20))
    assert where(memory.take(1 << 20)) == first
    assert where(memory.take((1 << 20) - 5)) == first


def test_a_view_an_array_and_a_part_of_one_keep_their_buffer():
    memory = Recycler()
    view = memory.take(1 << 20)
    keep = [view, np.frombuffer(memory.take(1 << 20), np.uint8), view[10:20]]
    array = np.ndarray((100,), np.uint8, memory.take(1 << 20))[::2]
    places = {where(memory.take(1 << 20)) for _ in range(3)}
    assert len(places) == 1
    assert places.isdisjoint({where(view), keep[1].ctypes.data, array.ctypes.data})


def test_the_content_that_somebody_keeps_does_not_change():
    memory, kept = Recycler(), []
    for n in range(20):
        view = memory.take(1 << 16)
        view[:] = bytes([n]) * (1 << 16)
        if n % 3 == 0:
            kept.append((n, np.frombuffer(view, np.uint8)))
        del view
    assert all((array == n).all() for n, array in kept)


def test_the_length_is_exact_and_the_memory_writable():
    memory = Recycler()
    for nbytes in (0, 1, 4095, 4097, (1 << 20) + 1):
        view = memory.take(nbytes)
        assert len(view) == nbytes
        view[:] = bytes(nbytes)


def test_what_is_kept_for_later_is_bounded():
    memory = Recycler(most=1 << 20)
    held = [memory.take(1 << 18) for _ in range(40)]
    assert memory._held <= 1 << 20
    for size in range(1 << 12, 1 << 19, 12345):
        memory.take(size)
        assert memory._held <= 1 << 20
    del held


def test_a_buffer_larger_than_the_bound_is_given_and_not_kept():
    memory = Recycler(most=1 << 16)
    assert len(memory.take(1 << 20)) == 1 << 20
    assert memory._held == 0
