"""Observation of each store that vLLM makes to a slot's flags, at the moment it is made."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from types import TracebackType
from typing import Any, SupportsIndex, overload

import msgspec

from killpoint.targets.protocol import StoreSink


class Layout(msgspec.Struct, frozen=True):
    """Layout of a ring's flags: offsets and lengths in bytes."""

    flags: int
    """Offset of the first slot's flags."""
    flags_per_slot: int
    chunk_bytes: int

    def slot_flags(self, slot: int) -> slice:
        """Return the bytes of one slot's flags."""
        start = self.flags + slot * self.flags_per_slot
        return slice(start, start + self.flags_per_slot)

    def name(self, at: int, size: int) -> str:
        """Return the name of what lies at an offset."""
        if at < self.flags:
            slot, byte = divmod(at, self.chunk_bytes)
            return f"chunk {slot} from byte {byte}"
        slot, flag = divmod(at - self.flags, self.flags_per_slot)
        whose = f"flag of reader-{flag - 1}" if flag else "written flag"
        return f"slot {slot}'s {whose}" + (" on" if size > 1 else "")


class Watched:
    """Stand-in for a ring's shared memory object; everything but ``buf`` is the real one's.

    The segment stays the real one: each store goes straight to it, inside a block of the sink's.
    """

    def __init__(self, real: SharedMemory, layout: Layout, sink: StoreSink) -> None:
        self.real = real
        self._layout = layout
        self._sink = sink

    @property
    def buf(self) -> WatchedBuffer | None:
        """The segment; None once it was closed."""
        real: memoryview | None = self.real.buf
        return None if real is None else WatchedBuffer(real, self._layout, self._sink)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class WatchedBuffer:
    """The whole segment: slices of the data are plain, slices of the flags are watched."""

    def __init__(self, real: memoryview, layout: Layout, sink: StoreSink) -> None:
        self._real = real
        self._layout = layout
        self._sink = sink

    def __len__(self) -> int:
        return len(self._real)

    def __getitem__(self, part: slice) -> memoryview | Flags:
        start, stop, step = part.indices(len(self._real))
        first = self._layout.flags
        if stop <= first:
            return self._real[part]
        if start < first or step != 1:
            raise ValueError(f"slice {start}:{stop}:{step} mixes data and flags: not watchable")
        return Flags(self._real[part], start - first, self._layout.flags_per_slot, self._sink)


class Flags:
    """Some of the flags. Behaves like a slice of a memoryview, and reports what is stored."""

    def __init__(self, view: memoryview, base: int, per_slot: int, sink: StoreSink) -> None:
        self._view = view
        self._base = base
        self._per_slot = per_slot
        self._sink = sink

    def __len__(self) -> int:
        return len(self._view)

    def __iter__(self) -> Iterator[int]:
        return iter(self._view)

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> Flags: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> int | Flags:
        if isinstance(index, slice):
            start, _, step = index.indices(len(self._view))
            if step != 1:
                raise ValueError("flags are watched in slices of step 1 only")
            return Flags(self._view[index], self._base + start, self._per_slot, self._sink)
        return self._view[index]

    @overload
    def __setitem__(self, index: SupportsIndex, value: int, /) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: bytes, /) -> None: ...
    def __setitem__(self, index: SupportsIndex | slice, value: int | bytes, /) -> None:
        if isinstance(index, slice):
            places = range(*index.indices(len(self._view)))
            content = bytes(value)
            if len(content) != len(places):
                raise ValueError(f"{len(content)} bytes do not fit {len(places)} flags")
            for place, flag in zip(places, content, strict=True):
                self[place] = flag
            return
        place, stored = range(len(self._view))[index], _byte(value)
        slot, flag = divmod(self._base + place, self._per_slot)
        with self._sink(slot, flag, stored):
            self._view[place] = stored

    def __enter__(self) -> Flags:
        self._view.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._view.release()


def _byte(value: int | bytes) -> int:
    """Return what a memoryview would take; an error must come before a store is reported."""
    if isinstance(value, bytes) or not 0 <= value <= 255:
        raise ValueError(f"{value!r} does not fit one flag")
    return value


def view_of(thing: Any) -> memoryview | Flags:
    """Return a ``memoryview``, for code that wraps each slice in another one."""
    return thing[:] if isinstance(thing, Flags) else memoryview(thing)
