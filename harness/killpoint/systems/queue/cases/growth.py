"""Cases of memory under a steady stream (Q12)."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.scenario import AnyStep, MeasureMemory, Message, Receive, Scenario, Send, Wait
from killpoint.search.case_run import CaseRun
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario
from killpoint.targets.shapes import QueueShape

_WINDOWS, _BY_SOCKET, _FROM_AFAR, _LONGER = 15, 25, 35, 100
"""Windows of a stream, a fifth of them to warm up; of one whose messages go by a socket, which has
more or fewer buffers from one look to the next; with a remote reader, whose sockets have most; and
where the first play could not tell."""
_RATE = 1_250.0
"""Messages a second: slow enough that a party which yields before it sleeps does come to sleep."""
_SHAPE = QueueShape(readers=2)
_REMOTE = msgspec.structs.replace(_SHAPE, remote=1)


def _window(message: Message, sent: float, taken: float) -> list[AnyStep]:
    return [
        Send([message], timeout=10.0, mutate=False, pace=sent),
        Receive(message.repeat, timeout=10.0, hold=False, pace=taken),
        Wait(within=20.0),
    ]


def _played(
    id: str, busy: bool, message: Message, rate: float, shape: QueueShape, windows: int
) -> Scenario:
    """A stream, weighed after each window: the readers pace it if they are to be ever-busy.

    Before it comes a window without a pace. As many messages as the queue lets be under way at a
    time have their memory then, and not when the machine first holds a reader up.
    """
    paced = _window(message, *((0.0, rate) if busy else (rate, 0.0)))
    steps = [*OPEN_QUEUE, *_window(message, 0.0, 0.0), *[*paced, MeasureMemory()] * windows]
    return msgspec.structs.replace(queue_scenario(id, *steps), shape=shape)


def _stream(
    id: str,
    summary: str,
    message: Message,
    rate: float = _RATE,
    shape: QueueShape = _SHAPE,
    *,
    busy: bool = False,
    windows: int = _WINDOWS,
) -> Case:
    def run(case_run: CaseRun) -> None:
        first, longer = (
            _played(id, busy, message, rate, shape, count) for count in (windows, _LONGER)
        )
        case_run.play(
            msgspec.structs.replace(first, seed=case_run.seed),
            longer=msgspec.structs.replace(longer, seed=case_run.seed),
        )

    needs = ("queue", "deadlines", "remote") if shape.remote else ("queue", "deadlines")
    return Case(id, summary, run, frozenset(needs))


_SMALL = Message(size=512, repeat=500)
_LARGE = Message("array", 10_000, repeat=400)
"""Too large for a chunk of ``_NARROW``, and no larger than need be: one buffer more in use, at some
time, must not pass for a few bytes of each of the messages. ZeroMQ gives what is above 8 KiB memory
of its own."""
_NARROW = msgspec.structs.replace(_SHAPE, chunk_bytes=8 * 1024)

CASES: tuple[Case, ...] = (
    _stream("Q12/paced-stream", "readers wait for each message", _SMALL),
    _stream("Q12/busy-readers", "readers always find a message", _SMALL, busy=True),
    _stream(
        "Q12/paced-overflow",
        "messages that go beside the ring",
        _LARGE,
        2_000.0,
        _NARROW,
        windows=_BY_SOCKET,
    ),
    _stream(
        "Q12/remote-stream",
        "one of the readers is remote",
        _SMALL,
        shape=_REMOTE,
        windows=_FROM_AFAR,
    ),
)
