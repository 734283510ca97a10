"""What stands in for a memoryview of shared memory behaves like one, and says when it is read."""

from __future__ import annotations

import pytest

from killpoint.simulation.buffer import Buffer
from killpoint.simulation.environment import SimulatedEnvironment
from killpoint.simulation.memory.model import Model


class Counted(Model):
    """Counts accesses."""

    def __init__(self) -> None:
        super().__init__(SimulatedEnvironment().world)
        self.accesses: list[tuple[str, int, int]] = []

    def load(self, at: int, size: int) -> bytes:
        self.accesses.append(("load", at, size))
        return bytes(self.data[at : at + size])

    def store(self, at: int, content: bytes) -> None:
        self.accesses.append(("store", at, len(content)))
        self.data[at : at + len(content)] = content


@pytest.fixture
def memory() -> Counted:
    return Counted()


@pytest.fixture
def buffer(memory: Counted) -> Buffer:
    return Buffer(memory, 100, 16)


def test_slicing_touches_nothing_and_reading_is_one_access(memory: Counted, buffer: Buffer) -> None:
    part = buffer[4:8][1:]
    assert memory.accesses == []
    assert bytes(part) == bytes(3)
    assert memory.accesses == [("load", 105, 3)]


def test_stores_are_as_large_as_what_is_stored(memory: Counted, buffer: Buffer) -> None:
    buffer[0] = 7
    buffer[2:5] = b"abc"
    buffer[-1] = 9
    assert memory.accesses == [("store", 100, 1), ("store", 102, 3), ("store", 115, 1)]
    assert (buffer[0], buffer[2:5] == b"abc", buffer[15]) == (7, True, 9)


def test_a_sum_loads_byte_by_byte(memory: Counted, buffer: Buffer) -> None:
    buffer[0:3] = b"\1\2\3"
    memory.accesses.clear()
    assert sum(buffer[0:3]) == 6
    assert len(memory.accesses) == 3


def test_words_are_eight_bytes(memory: Counted, buffer: Buffer) -> None:
    words = buffer.cast("Q")
    words[1] = 1 << 40 | 5
    assert (len(words), words[1], words[0]) == (2, 1 << 40 | 5, 0)
    assert memory.accesses[0] == ("store", 108, 8)


@pytest.mark.parametrize("bad", [16, -17])
def test_beyond_its_end_is_an_error(buffer: Buffer, bad: int) -> None:
    with pytest.raises(IndexError):
        buffer[bad]


def test_what_does_not_fit_is_an_error(buffer: Buffer) -> None:
    with pytest.raises(ValueError, match="different sizes"):
        buffer[0:3] = b"toolong"


def test_after_its_block_a_view_is_dead_like_a_released_memoryview(buffer: Buffer) -> None:
    with buffer[0:4] as part:
        part[0] = 1
    with pytest.raises(ValueError, match="released"):
        part[0]
    with pytest.raises(ValueError, match="released"):
        part[1:2] = b"x"
