"""Cases of exceptions between two steps: each call is wholly done or not done (R9)."""

from __future__ import annotations

from killpoint.cases.case import Case
from killpoint.explore.operations import QUEUE, REMOTE, Operation
from killpoint.explore.strikes import strike_anywhere
from killpoint.explore.trial import Trial
from killpoint.scenario import FaultName, Verb

_POINTS = frozenset({"queue", "points", "deadlines"})


def _of(operations: tuple[Operation, ...], *verbs: Verb) -> tuple[Operation, ...]:
    return tuple(each for each in operations if each.verb in verbs)


def _raised(
    id: str,
    summary: str,
    operations: tuple[Operation, ...],
    samples: int,
    fault: FaultName = "raise",
) -> Case:
    def run(trial: Trial) -> None:
        strike_anywhere(trial, operations, samples, fault)

    afar = {"remote"} if any(each.remote for each in operations) else set[str]()
    return Case(id, summary, run, _POINTS | afar)


CASES: tuple[Case, ...] = (
    _raised(
        "R9/exception-in-send",
        "an exception at lines of send: inline, in several buffers, overflow",
        _of(QUEUE, "send"),
        27,
    ),
    _raised(
        "R9/exception-in-receive",
        "an exception at lines of receive: inline, in several buffers, overflow",
        _of(QUEUE, "receive"),
        24,
    ),
    _raised(
        "R9/exception-in-send-remote",
        "an exception at lines of send, with a local and a remote reader",
        _of(REMOTE, "send"),
        10,
    ),
    _raised(
        "R9/exception-in-receive-remote",
        "an exception at lines of a remote reader's receive",
        _of(REMOTE, "receive"),
        6,
    ),
    _raised(
        "R9/signal-handler-raises",
        "a signal whose handler raises, at lines of send and receive",
        _of(QUEUE, "send", "receive"),
        18,
        "interrupt",
    ),
)
