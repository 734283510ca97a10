"""A slot's legal moves are those of SPEC 1, and no other."""

from __future__ import annotations

import itertools

import pytest

from killpoint.systems.queue.slot_model import Slot


def _in_case(case: int, readers: int) -> Slot:
    slot = Slot(readers)
    slot.written = int(case != 1)
    slot.read = {1: [1] * readers, 2: [0] * readers, 4: [1] * readers}.get(
        case, [1] + [0] * (readers - 1)
    )
    return slot


@pytest.mark.parametrize(
    ("case", "readers"), [(1, 1), (2, 1), (4, 1), (1, 3), (2, 3), (3, 3), (4, 3)]
)
def test_cases_are_read_off_the_flags(case: int, readers: int) -> None:
    assert _in_case(case, readers).case() == case


def test_the_writers_moves_are_1_to_1_4_to_1_and_1_to_2() -> None:
    legal: set[tuple[int, int]] = set()
    for case, flag, value in itertools.product((1, 2, 3, 4), (0, 1, 2), (0, 1)):
        for flags in itertools.product((0, 1), repeat=2):
            slot = _in_case(case, 2)
            if case == 1:
                slot.read = list(flags)
            before = slot.case()
            if not slot.store(None, flag, value):
                legal.add((before, slot.case()))
    assert legal == {(1, 1), (4, 1), (1, 2)}


@pytest.mark.parametrize(
    ("readers", "expected"), [(1, {(2, 4)}), (2, {(2, 3), (3, 4)}), (3, {(2, 3), (3, 3), (3, 4)})]
)
def test_a_readers_moves_mark_its_own_flag_in_a_written_slot(
    readers: int, expected: set[tuple[int, int]]
) -> None:
    legal: set[tuple[int, int]] = set()
    for flags in itertools.product((0, 1), repeat=1 + readers):
        for reader, flag, value in itertools.product(range(readers), range(1 + readers), (0, 1)):
            if flags[1 + reader]:
                continue  # it has read this slot
            slot = Slot(readers)
            slot.written, slot.read = flags[0], list(flags[1:])
            before = slot.case()
            if not slot.store(reader, flag, value):
                assert flag == reader + 1
                legal.add((before, slot.case()))
    assert legal == expected


def test_a_reader_may_not_mark_a_slot_twice() -> None:
    slot = Slot(3)
    slot.store(None, 0, 1)
    assert slot.store(0, 1, 1) == ""
    assert slot.store(0, 1, 1) != ""
