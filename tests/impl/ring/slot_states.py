"""The slot's four cases and who may move it where (SPEC 1, R1), without any memory."""

from collections.abc import Sequence
from enum import IntEnum


class SlotState(IntEnum):
    """SPEC 1's table; names say who is to act."""

    EMPTY = 1
    FRESH = 2
    PART_READ = 3
    READ = 4


def case_of(written: int, read: Sequence[int]) -> SlotState:
    """The case of a slot from its flags (`read[i]` is reader i's)."""
    if not written:
        return SlotState.EMPTY
    done = sum(1 for flag in read if flag)
    if done == 0:
        return SlotState.FRESH
    return SlotState.READ if done == len(read) else SlotState.PART_READ


def writer_may_write(written: int, read: Sequence[int]) -> bool:
    """True in cases 1 and 4."""
    return not written or all(read)


def reader_may_read(written: int, own: int) -> bool:
    """True for a reader in cases 2 and 3 that has not read this message."""
    return bool(written) and not own


def legal(before: SlotState, after: SlotState, by_writer: bool, n_reader: int) -> bool:
    """Whether one store by that party may make this transition (SPEC R1)."""
    if by_writer:
        return (before, after) in _WRITER
    return (before, after) in _READER or (n_reader == 1 and (before, after) == (2, 4))


_WRITER = {(1, 1), (4, 1), (1, 2)}
_READER = {(2, 3), (3, 3), (3, 4)}
