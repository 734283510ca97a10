"""The messages that are sent: what they are, what a reader looks at, and how sizes are written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Literal

import msgspec
import numpy as np

Kind = Literal["array", "bytes"]
KINDS: tuple[Kind, ...] = ("array", "bytes")
SIZES = (64, 4 << 10, 256 << 10, 1 << 20, 4 << 20, 23 << 20, 32 << 20, 64 << 20)

_NUMBER = struct.Struct("<Q")
_MADE = 2
"""Number of `bytes` payloads of a large size that are made, to be sent in turn."""
_MANY = 64
"""The same for payloads of up to 64 KiB."""


class Payload(msgspec.Struct, frozen=True):
    """``array``: ``{"step": number, "data": numpy uint8 array}``; ``bytes``: number and filling."""

    kind: Kind
    size: int
    """Bytes of data; the number is one of them for ``bytes`` (in the first eight)."""


class WrongMessage(Exception):
    """A reader got another message than the next one."""


def maker(payload: Payload) -> Callable[[int], Any]:
    """A function that gives message ``number``; the large part of it is made once, beforehand."""
    last = _last_byte(payload)
    if payload.kind == "array":
        data = np.zeros(payload.size, np.uint8)
        data += 1  # every page is really there
        data[-1] = last
        return lambda number: {"step": number, "data": data}
    turns = _turns(payload)
    filling = b"\1" * (payload.size - _NUMBER.size - 1) + bytes([last])
    made = [_NUMBER.pack(turn) + filling for turn in range(turns)]
    return lambda number: made[number % turns]


def check(payload: Payload) -> Callable[[int, Any], None]:
    """A function that looks at message ``number``: its number, its length, and its last byte.

    A ``bytes`` payload has its number modulo the few that were made.
    """
    last = _last_byte(payload)
    if payload.kind == "array":

        def look_at_array(number: int, message: Any) -> None:
            data = message["data"]
            if message["step"] != number or len(data) != payload.size or data[-1] != last:
                raise WrongMessage(f"message {number} expected, step {message['step']} came")

        return look_at_array
    turns = _turns(payload)

    def look_at_bytes(number: int, message: Any) -> None:
        if message[0] != number % turns or len(message) != payload.size or message[-1] != last:
            raise WrongMessage(f"message {number} expected, one of {message[0]} mod {turns} came")

    return look_at_bytes


def _turns(payload: Payload) -> int:
    return _MANY if payload.size <= 64 << 10 else _MADE


def _last_byte(payload: Payload) -> int:
    return payload.size.bit_length() + 100


def parse_size(text: str) -> int:
    """``64``, ``64B``, ``4KiB``, ``4K``, ``23MiB`` or ``23M`` as a number of bytes.

    Raises:
        ValueError: it is none of these, or below 16 bytes.
    """
    units = {"": 1, "B": 1, "K": 1 << 10, "KIB": 1 << 10, "M": 1 << 20, "MIB": 1 << 20}
    digits = text.strip().rstrip("BbIiKkMm ")
    unit = text.strip()[len(digits) :].strip().upper()
    if not digits.isdecimal() or unit not in units:
        raise ValueError(f"{text!r} is not a size; expected for example 64, 4KiB or 23MiB")
    size = int(digits) * units[unit]
    if size < 16:
        raise ValueError(f"{text!r} is too small a size; expected 16 bytes or more")
    return size


def show_size(size: int) -> str:
    """A size as a person writes it."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"
