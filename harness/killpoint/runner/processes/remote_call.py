"""A function that is called where the target is loaded, in a process forked for it alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from killpoint.targets.protocol import Target

CALLED = "call"
"""The start method of such a process."""
_ANSWER = "answer"


class Call(msgspec.Struct, frozen=True):
    """What is called."""

    function: str
    """``module:name``; it takes the target and ``data``, and gives bytes back."""
    data: bytes


def run(folder: Path, target: Target, errand: bytes) -> None:
    """Call it, and leave its answer in the folder, whole or not at all."""
    call = msgspec.msgpack.decode(errand, type=Call)
    module, _, name = call.function.partition(":")
    function: Callable[[Target, bytes], bytes] = getattr(importlib.import_module(module), name)
    unfinished = folder / f"{_ANSWER}.part"
    unfinished.write_bytes(function(target, call.data))
    unfinished.replace(folder / _ANSWER)


def answer(folder: Path) -> bytes | None:
    """What it left, if it did."""
    path = folder / _ANSWER
    return path.read_bytes() if path.exists() else None
