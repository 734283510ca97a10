"""Data as text that a page carries: JSON, deflated, in letters that end no script element."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import msgspec

_TAIL = 64 * 1024
"""Bytes: of what a process wrote, no more than its end is kept."""
_ENCODER = msgspec.json.Encoder()


class Said(msgspec.Struct, frozen=True):
    """Standard error of a process."""

    file: str
    text: str
    left_out: int
    """Bytes before the text."""


def pack(data: object) -> str:
    """Data as one word of base64."""
    return base64.b64encode(zlib.compress(_ENCODER.encode(data), 6)).decode()


def unpack(text: str) -> bytes:
    """The JSON that was packed."""
    return zlib.decompress(base64.b64decode(text))


def said(folder: Path) -> list[Said]:
    """Return the standard error of a play's processes, those that wrote nothing left out."""
    found: list[Said] = []
    for file in sorted(folder.glob("*.err")):
        raw = file.read_bytes()
        if raw.strip():
            text = raw[-_TAIL:].decode("utf-8", "replace")
            found.append(Said(file.name, text, max(0, len(raw) - _TAIL)))
    return found
