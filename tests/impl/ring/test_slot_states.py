"""SPEC 1's table and R1's transitions."""

import itertools

from .slot_states import SlotState, case_of, legal, reader_may_read, writer_may_write


def test_the_four_cases_are_those_of_the_table():
    for n in (1, 2, 3):
        for read in itertools.product((0, 1), repeat=n):
            assert case_of(0, read) is SlotState.EMPTY
            expected = (
                SlotState.FRESH
                if not any(read)
                else SlotState.READ
                if all(read)
                else SlotState.PART_READ
            )
            assert case_of(1, read) is expected


def test_the_writer_may_write_in_cases_1_and_4_only():
    for written, *read in itertools.product((0, 1), repeat=4):
        assert writer_may_write(written, read) == (case_of(written, read) in (1, 4))


def test_a_reader_may_read_what_is_written_and_not_yet_its_own():
    table = [reader_may_read(w, o) for w, o in ((0, 0), (0, 1), (1, 0), (1, 1))]
    assert table == [False, False, True, False]


def test_only_the_named_transitions_are_legal():
    for n in (1, 2):
        writer = {(a, b) for a in SlotState for b in SlotState if legal(a, b, True, n)}
        reader = {(a, b) for a in SlotState for b in SlotState if legal(a, b, False, n)}
        assert writer == {(1, 1), (4, 1), (1, 2)}
        assert reader == {(2, 3), (3, 3), (3, 4)} | ({(2, 4)} if n == 1 else set())
