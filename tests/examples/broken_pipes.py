"""The same queue, broken on purpose, one fault a class: the harness must catch each of them."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pipe_queue import PipeTarget, Reader, Writer

if TYPE_CHECKING:
    from killpoint.targets.protocol import QueueShape


class _Counting(PipeTarget):
    """Numbers the receive calls of a process, from 1."""

    calls = 0

    def receive(self, end: Reader, timeout: float | None) -> Any:
        self.calls += 1
        return self.nth(self.calls, end, timeout)

    def nth(self, call: int, end: Reader, timeout: float | None) -> Any:
        return end.receive(timeout)


class DropsEveryFifth(_Counting):
    """Skips a message in silence."""

    def nth(self, call: int, end: Reader, timeout: float | None) -> Any:
        if call % 5 == 0:
            end.receive(timeout)
        return end.receive(timeout)


class SwapsTwo(_Counting):
    """Hands out the eleventh message before the tenth."""

    def nth(self, call: int, end: Reader, timeout: float | None) -> Any:
        if call == 10:
            self.late = end.receive(timeout)
        return self.late if call == 11 else end.receive(timeout)


class RepeatsOne(_Counting):
    """Hands out the tenth message twice."""

    def nth(self, call: int, end: Reader, timeout: float | None) -> Any:
        if call != 11:
            self.last = end.receive(timeout)
        return self.last


class AsksAgain(PipeTarget):
    """A receive that timed out has asked for a message; the next asks too: both are served."""

    asked = 0
    twice: Any = None

    def receive(self, end: Reader, timeout: float | None) -> Any:
        if self.twice is not None:
            again, self.twice = self.twice, None
            return again
        self.asked += 1
        got = end.receive(timeout)
        self.twice, self.asked = got if self.asked > 1 else None, 0
        return got


class StartsOver(PipeTarget):
    """Whoever attaches a second time is given once more what it has had."""

    def __init__(self) -> None:
        self.had: list[Any] = []
        self.again: list[Any] = []

    def attach(self, handle: str, rank: int) -> Reader:
        self.again = list(self.had)
        return super().attach(handle, rank)

    def receive(self, end: Reader, timeout: float | None) -> Any:
        if self.again:
            return self.again.pop(0)
        self.had.append(end.receive(timeout))
        return self.had[-1]


class FlipsAByte(_Counting):
    """Changes one bit of the body of the tenth message."""

    def nth(self, call: int, end: Reader, timeout: float | None) -> Any:
        seq, crc, body = end.receive(timeout)
        if call == 10:
            body = bytes([body[0] ^ 1]) + body[1:] if isinstance(body, bytes) else body ^ 1
        return seq, crc, body


class KeepsAliasing(PipeTarget):
    """Hands out arrays that stand in one buffer, which the next message overwrites."""

    buffer = np.zeros(1 << 23, np.uint8)

    def receive(self, end: Reader, timeout: float | None) -> Any:
        seq, crc, body = end.receive(timeout)
        view = self.buffer[: body.size]
        view[:] = body
        return seq, crc, view


class SendsLater(PipeTarget):
    """Encodes the fifth message with the sixth: until then it is the caller's memory."""

    calls = 0

    def send(self, end: Writer, obj: Any, timeout: float | None) -> None:
        self.calls += 1
        if self.calls == 5:
            self.fifth = obj
            return
        if self.calls == 6:
            end.send(self.fifth, timeout)
        end.send(obj, timeout)


class NeverReturns(PipeTarget):
    """Waits for ever in its handshake, whatever the deadline."""

    def ready(self, end: Writer | Reader, timeout: float | None) -> None:
        threading.Event().wait()


class CountsAGhost(PipeTarget):
    """Says that all are here when its time is up."""

    def ready(self, end: Writer | Reader, timeout: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            end.ready(timeout)


class LeavesAFile(PipeTarget):
    """Makes a file in /dev/shm and forgets it."""

    def make(self, shape: QueueShape) -> Writer:
        end = super().make(shape)
        Path("/dev/shm", f"pipe-queue-{end.name[-16:]}").write_bytes(b"left")
        return end


class GivesUpEarly(PipeTarget):
    """Takes half of the time it was given."""

    def receive(self, end: Reader, timeout: float | None) -> Any:
        return end.receive(timeout and timeout / 2)


class BreaksFourPromises(SendsLater, CountsAGhost, LeavesAFile, GivesUpEarly):
    """One fault in each of four methods, none in the way of another: one start serves all."""
