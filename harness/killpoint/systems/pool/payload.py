"""Requests and replies of a pool, each of which reports when it is pickled and unpickled.

Where no point is armed, and where there is no play, that costs a function call.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

_HEAVY = 0.03
"""Seconds for which a heavy reply is pickled, longer than the next call takes to come."""


class Stand(Protocol):
    """Party that meets the runner in this process."""

    pid: int

    def at(self, phase: str, call: int) -> None:
        """Stand at a phase, if the runner waits there."""
        ...


_here: Stand | None = None


def take_stand(stand: Stand | None) -> Stand | None:
    """Set the party that phases of this process are reported to; return the one before."""
    global _here
    before, _here = _here, stand
    return before


def at(phase: str, call: int) -> None:
    """Report that this thread has come to a phase."""
    if _here is not None and _here.pid == os.getpid():
        _here.at(phase, call)


def body(call: int, size: int) -> bytes:
    """Return the body that every worker replies in this call."""
    pattern = b"<call %d>" % call
    return (pattern * (size // len(pattern) + 1))[:size]


def digest(data: bytes) -> str:
    """Return a cheap checksum."""
    return f"{zlib.crc32(data):08x}"


class Request:
    """Number of a call, in transit to the workers."""

    def __init__(self, call: int) -> None:
        self.call = call

    def __reduce__(self) -> tuple[Any, ...]:
        at("asking", self.call)
        return _request, (self.call,)


class Reply:
    """Reply of one worker to one call."""

    def __init__(self, rank: int, call: int, data: bytes, *, large: bool = False) -> None:
        self.rank = rank
        self.call = call
        self.data = data
        self.large = large
        """True if it is to exceed the size that a queue takes inline."""

    def __reduce__(self) -> tuple[Any, ...]:
        at("replying-overflow" if self.large else "replying", self.call)
        return _reply, (self.rank, self.call, self.data)


Named = tuple[tuple[str, ...], ...]
"""Ids that each rank names, in rank order."""


class Scheduled:
    """One step of the model: what each rank, in order, is to name as finished."""

    def __init__(self, sent: Named, received: Named, silent: int) -> None:
        self.sent, self.received = sent, received
        self.silent = silent
        """Rank that is to have no result; -1: every one has one."""


class StepOutput:
    """Result of one rank in a step of the model: the transfers that it has finished."""

    def __init__(self, sent: Iterable[str], received: Iterable[str]) -> None:
        self.finished_sending = set(sent)
        self.finished_receiving = set(received)


class Unpicklable(Reply):
    """Reply that cannot be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        at("replying", self.call)
        raise TypeError(f"the answer of rank {self.rank} to call {self.call} cannot be pickled")


class Heavy(Reply):
    """Reply that takes a while to be pickled, in Python."""

    def __reduce__(self) -> tuple[Any, ...]:
        at("replying", self.call)
        end = time.monotonic() + _HEAVY
        while time.monotonic() < end:
            pass
        return _reply, (self.rank, self.call, self.data)


class Unreadable(Reply):
    """Reply that the executor cannot unpickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        at("replying", self.call)
        return _unreadable, (self.rank, self.call)


def function_of(call: int) -> Callable[[Any, Request, int], Reply]:
    """Return a function to be sent by value; of all that are sent, this one alone holds the number.

    All of them come from one place in the source, and reply for the call whose number they hold.
    """

    def serve(worker: Any, _request: Request, size: int) -> Reply:
        return worker.function(Request(call), size)

    return serve


def _request(call: int) -> Request:
    at("reading", call)
    return Request(call)


def _unreadable(rank: int, call: int) -> Reply:
    at("hearing", call)
    raise ValueError(f"the answer of rank {rank} to call {call} cannot be unpickled")


def _reply(rank: int, call: int, data: bytes) -> Reply:
    at("hearing", call)
    return Reply(rank, call, data)
