"""What passes between an executor and its workers: each object says when it is pickled and read.

Where nothing is armed, and where there is no play, that costs a function call.
"""

from __future__ import annotations

import os
import zlib
from typing import Any, Protocol


class Stand(Protocol):
    """Whoever meets the runner in this process."""

    pid: int

    def at(self, phase: str, call: int) -> None:
        """Stand there, if somebody waits for it."""
        ...


_here: Stand | None = None


def take_stand(stand: Stand | None) -> Stand | None:
    """From now on phases of this process are told to it; whose they were before."""
    global _here
    before, _here = _here, stand
    return before


def at(phase: str, call: int) -> None:
    """This thread comes to a phase."""
    if _here is not None and _here.pid == os.getpid():
        _here.at(phase, call)


def body(call: int, size: int) -> bytes:
    """What every worker answers in this call."""
    pattern = b"<call %d>" % call
    return (pattern * (size // len(pattern) + 1))[:size]


def digest(data: bytes) -> str:
    """A checksum that costs little."""
    return f"{zlib.crc32(data):08x}"


class Request:
    """The number of a call, on its way to the workers."""

    def __init__(self, call: int) -> None:
        self.call = call

    def __reduce__(self) -> tuple[Any, ...]:
        at("asking", self.call)
        return _request, (self.call,)


class Reply:
    """What one worker answers to one call."""

    def __init__(self, rank: int, call: int, data: bytes, *, large: bool = False) -> None:
        self.rank = rank
        self.call = call
        self.data = data
        self.large = large
        """Whether it is meant to be past the boundary of what a queue takes inline."""

    def __reduce__(self) -> tuple[Any, ...]:
        at("replying-overflow" if self.large else "replying", self.call)
        return _reply, (self.rank, self.call, self.data)


class Unpicklable(Reply):
    """An answer that cannot leave its process."""

    def __reduce__(self) -> tuple[Any, ...]:
        at("replying", self.call)
        raise TypeError(f"the answer of rank {self.rank} to call {self.call} cannot be pickled")


def _request(call: int) -> Request:
    at("reading", call)
    return Request(call)


def _reply(rank: int, call: int, data: bytes) -> Reply:
    at("hearing", call)
    return Reply(rank, call, data)
