"""Decoding of MessagePack frames from a connection: a malformed one raises `Malformed` (SPEC C4).

msgspec raises its own errors for most frames that make no sense, and Python's for some: text that
is no UTF-8, nesting beyond the recursion limit, keys that cannot be hashed, sizes beyond memory.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec

_Message = TypeVar("_Message")

_REFUSED = (
    msgspec.MsgspecError,
    ValueError,  # UnicodeDecodeError is one
    TypeError,
    OverflowError,
    RecursionError,
    MemoryError,
)


class Malformed(ValueError):
    """A frame that is no message of its protocol; nothing of it was taken."""


def decode_frame(decode: Callable[[bytes], _Message], frame: bytes) -> _Message:
    """Return `decode(frame)`; raise Malformed for every error that the frame's bytes cause."""
    try:
        return decode(frame)
    except _REFUSED as error:
        raise Malformed(f"{type(error).__name__} at a frame of {len(frame)} bytes") from None


class DropCounter:
    """Counts dropped messages, and logs at 1, 2, 4, 8, …: a flood fills no log."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self.parts = 0
        """Number of messages, or parts of them, dropped so far."""

    def add(self, what: str, parts: int = 1) -> None:
        """Count `parts` dropped parts of `what`."""
        before, self.parts = self.parts, self.parts + parts
        if before.bit_length() != self.parts.bit_length():
            self._log.warning("%s made no sense and was dropped (%d so far)", what, self.parts)
