"""Cases of memory under a steady stream (Q12)."""

from __future__ import annotations

import msgspec

from killpoint.cases.case import OPEN, Case, fixed, scenario
from killpoint.scenario import (
    AnyStep,
    Fault,
    Message,
    Pause,
    Receive,
    Scenario,
    Send,
    Wait,
    Weigh,
)

_WINDOWS = 8
"""Two of them to warm up, and one to spare."""
_PACE = 0.0005
_IDLE: list[AnyStep] = [Weigh(), Pause(0.1), Weigh()]


def _stream(
    id: str, summary: str, slow: tuple[str, ...], message: Message, remote: int = 0
) -> Case:
    window: list[AnyStep] = [
        Send([message], timeout=10.0, mutate=False),
        Receive(message.repeat, timeout=10.0, hold=False),
        Wait(within=20.0),
        Weigh(),
    ]

    def build() -> list[Scenario]:
        pace = [Fault("slow", role, pause=_PACE) for role in slow]
        played = scenario(id, *OPEN, *pace, *_IDLE, *window * _WINDOWS, *_IDLE[1:])
        shape = msgspec.structs.replace(played.shape, remote=remote)
        return [msgspec.structs.replace(played, shape=shape)]

    return fixed(id, summary, build, "deadlines", *(["remote"] if remote else []))


_READERS = ("reader-0", "reader-1")
_SMALL = Message(size=512, repeat=400)
"""Enough that what stays of each has filled what was free in the heap before it is judged."""
_LARGE = Message("array", 100_000, repeat=200)
"""Enough that a payload's room in the heap, which is touched anew now and then, is no growth."""

CASES: tuple[Case, ...] = (
    _stream("Q12/paced-stream", "readers wait for each message", ("writer",), _SMALL),
    _stream("Q12/busy-readers", "readers always find a message", _READERS, _SMALL),
    _stream("Q12/paced-overflow", "messages that go beside the ring", ("writer",), _LARGE),
    _stream("Q12/remote-stream", "one of the readers is remote", ("writer",), _SMALL, remote=1),
)
