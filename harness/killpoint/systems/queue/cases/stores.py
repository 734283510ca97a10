"""Cases at stores: a party dies, or is stopped, around each of its stores to shared words.

Complete in every run: there are few stores in an operation, and a death between two of them
leaves the same memory behind wherever between them it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Close,
    Fault,
    Message,
    Point,
    Receive,
    Scenario,
    Send,
    Verb,
    Wait,
    WaitBlocked,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import Around, count_places
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario, small

_ENDLESS = 60
_PATIENT = 3.5
_SLOTS = 2
_STORES = frozenset({"queue", "slots"})
_OVERFLOW = Message("array", 100_000)
_LAP: list[AnyStep] = [
    Send([small(_SLOTS)], timeout=5.0),
    Wait(("writer",)),
    Receive(_SLOTS, timeout=5.0),
    Wait(),
]
"""Every slot has been used, and is free again."""
_UNTIL_TOLD: list[AnyStep] = [Receive(_ENDLESS), Close(("writer",)), Wait(within=5.0)]

Story = tuple[Verb, Sequence[AnyStep], Sequence[AnyStep]]
"""The operation that is struck, what comes before the fault is declared, and what after it."""

_WRITER: list[Story] = [
    ("send", [], [Send([small(1)], timeout=5.0), Wait(("writer",)), *_UNTIL_TOLD]),
    ("send", _LAP, [Send([small(1)], timeout=5.0), Wait(("writer",)), *_UNTIL_TOLD]),
    ("send", _LAP, [Send([_OVERFLOW], timeout=5.0), Wait(("writer",)), *_UNTIL_TOLD]),
    (
        "send",  # to readers that sleep
        [Receive(_ENDLESS), WaitBlocked(("readers",))],
        [Send([small(1)], timeout=5.0), Wait(("writer",)), Close(("writer",)), Wait(within=5.0)],
    ),
    ("close", _LAP, [Close(("writer",)), Receive(_ENDLESS), Wait(within=5.0)]),
]

_GOES_ON: list[AnyStep] = [
    Close(("reader-0",)),  # where it lives: when its stores are counted
    Receive(_ENDLESS, ("reader-1",), timeout=_PATIENT),
    Send([small(12)]),
    Wait(("writer",), within=4.0),
    Close(("writer",)),
    Wait(within=8.0),
]
_READER: list[Story] = [
    (
        "receive",
        [Send([small(_SLOTS)], timeout=5.0), Wait(("writer",))],
        [Receive(1, ("reader-0",), timeout=5.0), Wait(("reader-0",)), *_GOES_ON],
    ),
    (
        "receive",
        [Send([_OVERFLOW], timeout=5.0), Wait(("writer",))],
        [Receive(1, ("reader-0",), timeout=5.0), Wait(("reader-0",)), *_GOES_ON],
    ),
    (
        "receive",  # from a writer that sleeps because of this reader alone
        [
            Send([small(_SLOTS + 1)]),
            Receive(_SLOTS, ("reader-1",), timeout=5.0),
            WaitBlocked(("writer",)),
        ],
        [Receive(1, ("reader-0",), timeout=5.0), Wait(("reader-0",)), *_GOES_ON],
    ),
    ("close", _LAP, [Close(("reader-0",)), Wait(("reader-0",)), *_GOES_ON]),
]

_MORE = 3
"""Messages that follow the one whose send or receive is struck."""
_STOPPED: list[tuple[int, Message]] = [(0, small(1)), (2, _OVERFLOW), (3, small(1))]
"""Number of messages before, and the one that is struck: on a fresh slot, with an overflow payload,
and on a slot used before."""


def _sweep(case_run: CaseRun, role: str, op: Verb, around: Around, fault: Fault) -> int:
    count = count_places(case_run, role, Point(op), around, "stores")
    for store in case_run.with_progress(range(count)):
        at = Point(op, store=store)
        case_run.play(around(Fault(fault.fault, role, at)))
    return count


def _note(case_run: CaseRun, places: int) -> None:
    case_run.outcome.counts["store places"] = places


def kill(case_run: CaseRun, role: str, stories: list[Story]) -> None:
    """Kill a role around each store of its operations."""
    places = 0
    for op, before, after in stories:

        def around(
            step: AnyStep,
            before: Sequence[AnyStep] = before,
            after: Sequence[AnyStep] = after,
        ) -> Scenario:
            return queue_scenario(
                case_run.outcome.id, *OPEN_QUEUE, *before, step, *after, chunks=_SLOTS
            )

        places += _sweep(case_run, role, op, around, Fault("kill", role))
    _note(case_run, places)


def _stop(case_run: CaseRun) -> None:
    """Stop a role around each store, and let it go on: no party loses anything.

    The writer sends to readers that sleep, and the reader finds its message there: else a race
    would say which stores there are.
    """
    places = 0
    for before, struck in _STOPPED:
        lap = [Send([small(1)], timeout=5.0), Wait(("writer",)), Receive(1, timeout=5.0), Wait()]
        receive = Receive(1 + _MORE, timeout=9.0)

        def writer(
            step: AnyStep,
            begun: Sequence[AnyStep] = (*OPEN_QUEUE, *lap * before, receive),
            struck: Message = struck,
        ) -> Scenario:
            sent = Send([struck, small(_MORE)], timeout=9.0)
            steps = [*begun, WaitBlocked(("readers",)), step, sent]
            steps += [Fault("continue", "writer"), Wait(within=20.0)]
            return queue_scenario(case_run.outcome.id, *steps, chunks=_SLOTS)

        def reader(
            step: AnyStep,
            begun: Sequence[AnyStep] = (*OPEN_QUEUE, *lap * before),
            struck: Message = struck,
            receive: Receive = receive,
        ) -> Scenario:
            sent = [Send([struck], timeout=5.0), Wait(("writer",))]
            steps = [*begun, *sent, step, receive, Send([small(_MORE)], timeout=9.0)]
            steps += [Fault("continue", "reader-0"), Wait(within=20.0)]
            return queue_scenario(case_run.outcome.id, *steps, chunks=_SLOTS)

        places += _sweep(case_run, "writer", "send", writer, Fault("stop", "writer"))
        places += _sweep(case_run, "reader-0", "receive", reader, Fault("stop", "reader-0"))
    _note(case_run, places)


CASES: tuple[Case, ...] = (
    Case(
        "Q6/writer-killed-at-stores",
        "SIGKILL around every store to shared words of send (fresh and used slot, overflow,"
        " sleeping readers) and close",
        lambda case_run: kill(case_run, "writer", _WRITER),
        _STORES,
    ),
    Case(
        "Q7/reader-killed-at-stores",
        "SIGKILL around every store to shared words of receive (inline, overflow, sleeping"
        " writer) and close",
        lambda case_run: kill(case_run, "reader-0", _READER),
        _STORES,
    ),
    Case(
        "R3/stopped-at-stores",
        "SIGSTOP around every store to shared words of send and receive, then SIGCONT",
        _stop,
        _STORES,
    ),
)
