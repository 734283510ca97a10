"""A message on its way: all of its parts, which travel, arrive and are lost together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import zmq

Parts = tuple[bytes | memoryview, ...]
"""A part that is a memoryview still is its sender's memory: a large one sent without a copy."""

_SHOWN = 24


def parts_of(buffers: Sequence[Any], copy: bool) -> Parts:
    """The parts as the library takes them at a send.

    Without ``copy`` a large buffer is referred to until it has left, a small one copied.
    """
    return tuple(_part(buffer, copy) for buffer in buffers)


def left(parts: Parts) -> Parts:
    """The parts once they have left their sender's memory."""
    return tuple(bytes(part) for part in parts)


def shown(parts: Parts) -> str:
    """For a person."""
    words = [repr(bytes(part)) if len(part) <= _SHOWN else f"{len(part)} bytes" for part in parts]
    return " + ".join(words)


def _part(buffer: Any, copy: bool) -> bytes | memoryview:
    if isinstance(buffer, zmq.Frame):
        buffer = buffer.buffer
    view = memoryview(buffer).cast("B")
    if copy or len(view) < zmq.COPY_THRESHOLD:
        return bytes(view)
    return view
