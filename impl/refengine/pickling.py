"""Pickle 5 with one kept pickler, and without the names that most messages would spell out.

To look `numpy.ndarray` up by its name, at both ends, costs as much as all the rest of a small
array's message. So the pickler's memo begins with what our own reducers call, and each pickle with
a prelude that fills the same places of the reader's memo: from the buffers that the reader passes
in (pickle takes any object for one), or, for a message that needs none of it, with None.
"""

import copyreg
import io
import pickle
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from . import reducers

_PROTO = b"\x80\x05"
_TAKE = b"\x97"  # NEXT_BUFFER
_KEEP = b"\x94"  # MEMOIZE
_DROP = b"0"  # POP
_WITHOUT = _PROTO + b"N" + _KEEP + _KEEP + _DROP
_WITH_BUILDERS = _PROTO + _TAKE + _KEEP + _TAKE + _KEEP + _DROP + _DROP
_FIRST, _SECOND = _TAKE[0], _KEEP[0]

_loads = pickle.loads
Buffer = bytes | memoryview


class Pickler:
    """Large buffers come out of band, as the caller's own memory."""

    def __init__(self, out_of_band_from: int) -> None:
        self._least = out_of_band_from
        self._used: list[object] = []
        self._large: list[Buffer] = []
        self._parts: list[bytes] = []
        table: dict[type, Any] = dict(copyreg.dispatch_table)
        reducers.install(table, self._used)
        sink: Any = SimpleNamespace(write=self._parts.append)  # cheaper than a file to rewind
        self._pickler: Any = pickle.Pickler(sink, 5, buffer_callback=self._keep)
        self._pickler.dispatch_table = table
        first: Any = pickle.Pickler(io.BytesIO())
        first.memo = {id(b): (place, b) for place, b in enumerate(reducers.BUILDERS)}
        self._memo = self._pickler.memo = first.memo
        self._dump = self._pickler.dump

    def dumps(self, obj: object) -> list[Buffer]:
        """The pickle, then the buffers. After an exception this pickler is spoiled."""
        parts = self._parts
        self._dump(obj)
        self._pickler.memo = self._memo  # now, so that nothing of the object is kept
        prelude = _WITHOUT
        if self._used:
            self._used.clear()
            prelude = _WITH_BUILDERS
        if len(parts) == 1:
            main = prelude + parts.pop()
        else:
            parts[0] = prelude + parts[0]
            main = b"".join(parts)
            parts.clear()
        if self._large:
            buffers: list[Buffer] = [main, *self._large]
            self._large.clear()
            return buffers
        return [main]

    def _keep(self, buffer: pickle.PickleBuffer) -> bool:
        """True leaves the buffer in the pickle."""
        raw = buffer.raw()
        if raw.nbytes < self._least:
            return True
        self._large.append(raw)
        return False


def loads(main: Buffer, buffers: Sequence[Buffer] = ()) -> Any:
    """The object again; `main` is from `Pickler.dumps`, or any other pickle."""
    if main[3] == _SECOND and main[2] == _FIRST:
        known = reducers.builders()
        return _loads(main, buffers=[*known, *buffers] if buffers else known)
    return _loads(main, buffers=buffers) if buffers else _loads(main)
