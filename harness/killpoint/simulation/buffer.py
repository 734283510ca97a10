"""Stand-in for a memoryview of shared memory in the target's code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, SupportsIndex, overload

from killpoint.simulation.memory.model import Model

_BYTES = tuple(bytes((value,)) for value in range(256))
_ENDED = "operation forbidden on released memoryview object"


class Buffer:
    """Slice of simulated memory. Slicing it touches nothing; a value read or written does.

    It is no real buffer: code that needs one (struct, pickle) gets ``bytes(buffer)``.
    """

    __slots__ = ("_at", "_live", "_model", "_size")

    def __init__(self, model: Model, at: int, size: int) -> None:
        self._model, self._at, self._size = model, at, size
        self._live = True

    def __len__(self) -> int:
        if not self._live:
            raise ValueError(_ENDED)
        return self._size

    @property
    def nbytes(self) -> int:
        """Size in bytes, as of a memoryview."""
        return len(self)

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> Buffer: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> int | Buffer:
        if type(index) is int and 0 <= index < self._size and self._live:
            return self._model.byte(self._at + index)  # nearly always
        if not self._live:
            raise ValueError(_ENDED)
        if isinstance(index, slice):
            first, size = self._span(index)
            return Buffer(self._model, self._at + first, size)
        return self._model.byte(self._at + self._place(index))

    @overload
    def __setitem__(self, index: SupportsIndex, value: int, /) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Any, /) -> None: ...
    def __setitem__(self, index: SupportsIndex | slice, value: Any, /) -> None:
        if type(index) is int and 0 <= index < self._size and self._live:
            self._model.store(self._at + index, _byte(value))  # nearly always
            return
        if not self._live:
            raise ValueError(_ENDED)
        if isinstance(index, slice):
            first, size = self._span(index)
            content = bytes(value)
            if len(content) != size:
                raise ValueError("memoryview assignment: lvalue and rvalue have different sizes")
            if content:
                self._model.store(self._at + first, content)
            return
        self._model.store(self._at + self._place(index), _byte(value))

    def __iter__(self) -> Iterator[int]:
        return (self[index] for index in range(len(self)))

    def __bytes__(self) -> bytes:
        if not self._live:
            raise ValueError(_ENDED)
        return self._model.load(self._at, self._size) if self._size else b""

    def __buffer__(self, _flags: int, /) -> memoryview:
        return memoryview(bytes(self))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, bytes | bytearray | Buffer):
            return bytes(self) == bytes(other)
        return NotImplemented

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # as of writable memory

    def tobytes(self) -> bytes:
        """Return a copy of the bytes."""
        return bytes(self)

    def cast(self, form: str) -> Words:
        """Return a view as words of eight bytes; other casts are refused."""
        if form != "Q":
            raise ValueError(f"simulated memory is cast to 'Q' only, not {form!r}")
        return Words(self._model, self._at, len(self) // 8)

    def release(self) -> None:
        """Forbid any later use."""
        self._live = False

    def __enter__(self) -> Buffer:
        if not self._live:
            raise ValueError(_ENDED)
        return self

    def __exit__(self, *_: object) -> None:
        self._live = False

    def _span(self, part: slice) -> tuple[int, int]:
        first, last, step = part.start, part.stop, part.step
        known = type(first) is int and type(last) is int and step is None
        if known and 0 <= first <= last <= self._size:
            return first, last - first  # nearly always
        first, last, step = part.indices(self._size)
        if step != 1:
            raise ValueError("simulated memory is sliced in steps of 1 only")
        return first, last - first if last > first else 0

    def _place(self, index: SupportsIndex) -> int:
        place = index.__index__()
        if place < 0:
            place += self._size
        if not 0 <= place < self._size:
            raise IndexError("index out of bounds on dimension 1")
        return place


def _byte(value: int) -> bytes:
    return _BYTES[value] if type(value) is int and 0 <= value < 256 else bytes((value,))


class Words:
    """Simulated memory as words of eight bytes, in the machine's byte order."""

    __slots__ = ("_at", "_count", "_live", "_model")

    def __init__(self, model: Model, at: int, count: int) -> None:
        self._model, self._at, self._count = model, at, count
        self._live = True

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:
        return int.from_bytes(self._model.load(self._where(index), 8), sys.byteorder)

    def __setitem__(self, index: int, value: int) -> None:
        self._model.store(self._where(index), value.to_bytes(8, sys.byteorder))

    def release(self) -> None:
        """Forbid any later use."""
        self._live = False

    def _where(self, index: int) -> int:
        if not self._live:
            raise ValueError(_ENDED)
        if not 0 <= index < self._count:
            raise IndexError("index out of bounds on dimension 1")
        return self._at + 8 * index
