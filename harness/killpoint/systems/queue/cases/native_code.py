"""Cases of targets with native code: kills and stops at random times in it (R3, Q6, Q7).

No line of Python's can be struck there.
"""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Close,
    Fault,
    Message,
    Pause,
    Point,
    Receive,
    Scenario,
    Send,
    Verb,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.operations import UNREAD_WITHIN
from killpoint.search.random_times import strike_at_random_times
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario, small

_SAMPLES = 60
_MIXED = [small(1), Message("array", 30_000)] * 12
"""24 messages, as small and as large as a slot takes them."""
_AFTER = 3
_SLOTS = 32
_STANDS = 0.05
_CALL = 0.2
"""Seconds for a call that has nothing to wait for, or runs into its deadline."""


_SENDS = Send(_MIXED, timeout=UNREAD_WITHIN)
_AHEAD: list[AnyStep] = [_SENDS, Wait(("writer",))]
"""Every message is there, so that no receive waits."""


def _writer_killed(id: str) -> Scenario:
    """The writer is killed: readers that get no message have a deadline, whoever holds a lock."""
    strike = Fault("kill", "writer", Point("send", spread=_SAMPLES))
    receives = Receive(len(_MIXED) + 1, timeout=_CALL)
    steps = [strike, _SENDS, Wait(("writer",)), receives, Wait(("readers",), within=3.0)]
    return _whole(id, *steps)


def _reader_killed(id: str) -> Scenario:
    """The writer has room, and a deadline; the other reader loses nothing."""
    strike = Fault("kill", "reader-0", Point("receive", spread=_SAMPLES))
    taken = Receive(len(_MIXED), ("reader-0",), timeout=1.0)
    more = Send([small(_AFTER)], timeout=_CALL, keep_on=True)
    rest = Receive(len(_MIXED) + _AFTER, ("reader-1",), timeout=_CALL)
    steps = [*_AHEAD, strike, taken, Wait(("reader-0",)), more, Wait(("writer",), within=3.0)]
    return _whole(id, *steps, rest, Wait(("reader-1",), within=3.0))


def _stopped(id: str, role: str) -> Scenario:
    """A role is stopped: a role that waits for its lock goes on when the holder does."""
    verb: Verb = "send" if role == "writer" else "receive"
    strike = Fault("stop", role, Point(verb, spread=_SAMPLES))
    received = Receive(len(_MIXED), timeout=10.0)
    calls = [strike, _SENDS] if role == "writer" else [*_AHEAD, strike]
    go_on = [Pause(_STANDS), Fault("continue", role), Wait(within=20.0)]
    return _whole(id, *calls, received, *go_on)


def _whole(id: str, *steps: AnyStep) -> Scenario:
    return queue_scenario(id, *OPEN_QUEUE, *steps, Close(), Wait(within=6.0), chunks=_SLOTS)


def _case(story: Scenario, summary: str) -> Case:
    def run(case_run: CaseRun) -> None:
        strike_at_random_times(case_run, msgspec.structs.replace(story, seed=case_run.seed))

    return Case(story.case, summary, run, frozenset({"queue", "deadlines", "native"}))


CASES: tuple[Case, ...] = (
    _case(
        _writer_killed("Q6/writer-killed-at-random-times"),
        "SIGKILL at times spread over the duration of send; calls with a deadline follow",
    ),
    _case(
        _reader_killed("Q7/reader-killed-at-random-times"),
        "SIGKILL at times spread over the duration of receive; the writer sends on",
    ),
    _case(
        _stopped("R3/writer-stopped-at-random-times", "writer"),
        "the writer is stopped at times spread over the duration of send, and goes on",
    ),
    _case(
        _stopped("R3/reader-stopped-at-random-times", "reader-0"),
        "a reader is stopped at times spread over the duration of receive, and goes on",
    ),
)
