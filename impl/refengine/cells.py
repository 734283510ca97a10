"""The bytes of a ring that parties store to and load from one at a time: the seam for flags."""

from collections.abc import Callable
from typing import Protocol, overload


class Cells(Protocol):
    """A view of the ring's memory; every load and store of a flag or sleeper word goes through it.

    Slices are byte strings: `cells[a:b] = bytes` stores each of them (in any order), and
    `cells[a:b]` compares equal to the bytes there. A plain memoryview is one.
    """

    @overload
    def __getitem__(self, at: int, /) -> int: ...
    @overload
    def __getitem__(self, at: slice, /) -> object: ...
    @overload
    def __setitem__(self, at: int, value: int, /) -> None: ...
    @overload
    def __setitem__(self, at: slice, value: bytes, /) -> None: ...


MakeCells = Callable[[memoryview], Cells]
"""Wraps the ring's whole memory (offsets are those of `Layout`)."""


def plain(memory: memoryview) -> Cells:
    """The memory itself."""
    return memory
