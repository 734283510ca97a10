from pathlib import Path

import pytest

from refengine.pipe.shelf import Shelf

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
    shelf = Shelf(4 * MIB, use)
    memory = shelf.take(MIB)
    memory[:4] = b"left"
    use.nbytes = MIB
    shelf.give_back(memory)
    use.nbytes = 0
    assert shelf.nbytes == MIB
    assert bytes(shelf.take(MIB - 1)[:4]) == b"left"
    assert shelf.nbytes == 0


def test_another_size_gets_memory_of_its_own():
    shelf = Shelf(4 * MIB, Use())
    shelf.give_back(shelf.take(MIB))
    memory = shelf.take(2 * MIB)
    assert len(memory) == 2 * MIB
    assert shelf.nbytes == MIB


def test_memory_of_another_size_stays_as_long_as_all_fits_to_the_byte():
    use = Use()
    shelf = Shelf(2 * MIB, use)
    one = shelf.take(MIB)
    shelf.give_back(one)
    use.nbytes = MIB
    before = descriptors()
    memory = shelf.take(MIB // 2)
    assert descriptors() == before
    assert shelf.nbytes == MIB
    del memory


def test_what_lies_idle_and_what_is_in_use_stay_below_the_limit():
    use = Use()
    shelf = Shelf(2 * MIB, use)
    one, two, three = (shelf.take(MIB) for _ in range(3))
    use.nbytes = 3 * MIB
    shelf.give_back(one)
    assert shelf.nbytes == 0
    use.nbytes = 2 * MIB
    shelf.give_back(two)
    use.nbytes = MIB
    shelf.give_back(three)
    assert shelf.nbytes == 2 * MIB
    use.nbytes = MIB + 1
    shelf.take(MIB // 2)
    assert shelf.nbytes == 0


@pytest.mark.parametrize("memory", [memoryview(b"not from here")])
def test_only_its_own_memory_is_kept(memory: memoryview):
    shelf = Shelf(MIB, Use())
    shelf.give_back(memory)
    assert shelf.nbytes == 0


def test_no_more_is_kept_than_is_good_for_a_machine():
    shelf = Shelf(1 << 30, Use())
    first, second = shelf.take(128 * MIB), shelf.take(128 * MIB)
    shelf.give_back(first)
    shelf.give_back(second)
    assert shelf.nbytes == 256 * MIB
    shelf.give_back(shelf.take(1))
    assert shelf.nbytes == 256 * MIB


def test_nothing_is_left_once_it_is_cleared():
    shelf = Shelf(MIB, Use())
    shelf.give_back(shelf.take(10))
    shelf.clear()
    assert shelf.nbytes == 0
