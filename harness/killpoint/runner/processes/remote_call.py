"""Calls of a function where the target is loaded, in a process forked for the call alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from killpoint.targets.protocol import Target

CALLED = "call"
"""Start method of such a process."""
_ANSWER = "answer"


class Call(msgspec.Struct, frozen=True):
    """Function to call, and its argument."""

    function: str
    """``module:name``; it takes the target and ``data``, and returns bytes."""
    data: bytes


def run(folder: Path, target: Target, request: bytes) -> None:
    """Call the function, and leave its answer in the folder, whole or not at all."""
    call = msgspec.msgpack.decode(request, type=Call)
    module, _, name = call.function.partition(":")
    function: Callable[[Target, bytes], bytes] = getattr(importlib.import_module(module), name)
    unfinished = folder / f"{_ANSWER}.part"
    unfinished.write_bytes(function(target, call.data))
    unfinished.replace(folder / _ANSWER)


def answer(folder: Path) -> bytes | None:
    """Return the answer, if there is one."""
    path = folder / _ANSWER
    return path.read_bytes() if path.exists() else None
