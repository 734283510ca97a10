"""A message in transit: all of its parts, which travel, arrive and are lost together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import zmq

Parts = tuple[bytes | memoryview, ...]
"""Parts of a message. A memoryview still is its sender's memory: a large part sent without a
copy."""

_SHOWN = 24


def parts_of(buffers: Sequence[Any], copy: bool) -> Parts:
    """Return the parts as the library takes them at a send.

    Without ``copy`` a large buffer is referred to until it has left, a small one copied.
    """
    return tuple(_part(buffer, copy) for buffer in buffers)


def left(parts: Parts) -> Parts:
    """Return copies of the parts, as of when they leave their sender's memory."""
    return tuple(bytes(part) for part in parts)


def shown(parts: Parts) -> str:
    """Return the text of a message, for a person."""
    words = [repr(bytes(part)) if len(part) <= _SHOWN else f"{len(part)} bytes" for part in parts]
    return " + ".join(words)


def _part(buffer: Any, copy: bool) -> bytes | memoryview:
    if isinstance(buffer, zmq.Frame):
        buffer = buffer.buffer
    view = memoryview(buffer).cast("B")
    if copy or len(view) < zmq.COPY_THRESHOLD:
        return bytes(view)
    return view
