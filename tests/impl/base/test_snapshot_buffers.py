from pathlib import Path

import pytest

from refengine.base.buffer_pool import SnapshotBuffers

MIB = 1 << 20


class Use:
    def __init__(self) -> None:
        self.nbytes = 0

    def __call__(self) -> int:
        return self.nbytes


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_memory_comes_back_with_what_was_in_it():
    use = Use()
    buffers = SnapshotBuffers(4 * MIB, use)
    memory = buffers.take(MIB)
    memory[:4] = b"left"
    use.nbytes = MIB
    buffers.give_back(memory)
    use.nbytes = 0
    assert buffers.nbytes == MIB
    assert bytes(buffers.take(MIB - 1)[:4]) == b"left"
    assert buffers.nbytes == 0


def test_another_size_gets_memory_of_its_own():
    buffers = SnapshotBuffers(4 * MIB, Use())
    buffers.give_back(buffers.take(MIB))
    memory = buffers.take(2 * MIB)
    assert len(memory) == 2 * MIB
    assert buffers.nbytes == MIB


def test_memory_of_another_size_stays_as_long_as_all_fits_to_the_byte():
    use = Use()
    buffers = SnapshotBuffers(2 * MIB, use)
    one = buffers.take(MIB)
    buffers.give_back(one)
    use.nbytes = MIB
    before = descriptors()
    memory = buffers.take(MIB // 2)
    assert descriptors() == before
    assert buffers.nbytes == MIB
    del memory


def test_what_lies_idle_and_what_is_in_use_stay_below_the_limit():
    use = Use()
    buffers = SnapshotBuffers(2 * MIB, use)
    one, two, three = (buffers.take(MIB) for _ in range(3))
    use.nbytes = 3 * MIB
    buffers.give_back(one)
    assert buffers.nbytes == 0
    use.nbytes = 2 * MIB
    buffers.give_back(two)
    use.nbytes = MIB
    buffers.give_back(three)
    assert buffers.nbytes == 2 * MIB
    use.nbytes = MIB + 1
    buffers.take(MIB // 2)
    assert buffers.nbytes == 0


@pytest.mark.parametrize("memory", [memoryview(b"not from here")])
def test_only_its_own_memory_is_kept(memory: memoryview):
    buffers = SnapshotBuffers(MIB, Use())
    buffers.give_back(memory)
    assert buffers.nbytes == 0


def test_no_more_is_kept_than_is_good_for_a_machine():
    buffers = SnapshotBuffers(1 << 30, Use())
    first, second = buffers.take(128 * MIB), buffers.take(128 * MIB)
    buffers.give_back(first)
    buffers.give_back(second)
    assert buffers.nbytes == 256 * MIB
    buffers.give_back(buffers.take(1))
    assert buffers.nbytes == 256 * MIB


def test_nothing_is_left_once_it_is_cleared():
    buffers = SnapshotBuffers(MIB, Use())
    buffers.give_back(buffers.take(10))
    buffers.clear()
    assert buffers.nbytes == 0
