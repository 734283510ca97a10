"""Cases of ranks that do not exist, ranks that two roles claim, and a second writer (Q17)."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Attach,
    Close,
    Fault,
    Make,
    Message,
    Ready,
    Receive,
    Scenario,
    Send,
    Wait,
)
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_case, queue_scenario, small

_TRAFFIC: list[AnyStep] = [Send([small(3)], timeout=5.0), Receive(3, timeout=5.0), Wait()]


def _claim(id: str, summary: str, rank: int, remote: int = 0) -> Case:
    def build() -> list[Scenario]:
        claim = Attach(("reader-0",), rank=rank)
        found = queue_scenario(id, Make(), claim, Wait(within=6.0), *OPEN_QUEUE[1:], *_TRAFFIC)
        shape = msgspec.structs.replace(found.shape, remote=remote)
        return [msgspec.structs.replace(found, shape=shape)]

    return queue_case(id, summary, build, "deadlines", *(["remote"] if remote else []))


def _one(id: str, summary: str, *steps: AnyStep) -> Case:
    return queue_case(id, summary, lambda: [queue_scenario(id, *steps)], "deadlines")


_LATER: list[AnyStep] = [
    Send([small(5), Message("array", 100_000)], timeout=0.5, keep_on=True),
    Receive(7, timeout=0.8, keep_on=True),
    Wait(within=20.0),
]
"""More than a ring of four has slots for, and one message that is larger than a slot."""

CASES: tuple[Case, ...] = (
    _claim("Q17/unknown-rank", "rank 2 of a queue with two local readers and no remote one", 2),
    _claim("Q17/negative-rank", "rank -1, then the right one", -1),
    _claim("Q17/unknown-remote-rank", "rank 5 of a queue with one local, one remote reader", 5, 1),
    _one(
        "Q17/duplicate-rank",
        "two readers claim rank 0, nobody rank 1",
        Make(),
        Attach(("reader-0",)),
        Wait(within=6.0),
        Attach(("reader-1",), rank=0),
        Wait(within=6.0),
        Ready(timeout=0.7),
        Wait(within=6.0),
    ),
    _one(
        "Q17/attached-again",
        "a reader closes its end and attaches a second time",
        *[*OPEN_QUEUE, *_TRAFFIC, Close(("reader-0",)), Wait()],
        *[Attach(("reader-0",)), Wait(within=6.0), *_LATER],
    ),
    _one(
        "Q17/rank-of-a-dead-reader",
        "a reader is killed; the other one closes its end and attaches as its successor",
        *[*OPEN_QUEUE, *_TRAFFIC, Fault("kill", "reader-0"), Close(("reader-1",)), Wait()],
        *[Attach(("reader-1",), rank=0), Wait(within=6.0), *_LATER],
    ),
    _one(
        "Q17/second-writer",
        "a reader sends",
        *OPEN_QUEUE,
        Send([small(1)], role="reader-0", timeout=1.0),
        Wait(),
        *_TRAFFIC,
    ),
)
