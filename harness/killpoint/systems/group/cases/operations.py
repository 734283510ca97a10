"""Cases of process groups: order (G1), flat memory (G2), the wall clock and IPv6 (G5)."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Barrier,
    Broadcast,
    Fault,
    Gather,
    Join,
    MeasureMemory,
    Message,
    Pause,
    Point,
    ReceiveFrom,
    Scenario,
    SendTo,
    Wait,
    WaitBlocked,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import count_lines
from killpoint.systems.group.cases.builders import (
    JOIN_GROUP,
    all_to_all,
    around,
    group_scenario,
    ranks,
    surely,
)
from killpoint.systems.group.cases.endings import ENDS
from killpoint.systems.group.cases.network import NETWORK
from killpoint.systems.group.fuzz import fuzz_group_stories
from killpoint.systems.queue.cases.builders import MIB, small

_KINDS = [
    small(3),
    Message("array", 5000, repeat=2),
    Message("nested", 3000),
    Message("bytes", 64, repeat=4, step=700),
    Message("tensor", 20_000),
]
_EVERY = ranks(3)


def _large() -> list[AnyStep]:
    """Each pair sends in turn, so that no rank has to keep more than one object of 8 MiB."""
    steps: list[AnyStep] = [*JOIN_GROUP]
    for source in _EVERY:
        for to in _EVERY:
            if to != source:
                steps += [
                    SendTo(source, to, [Message("array", 8 * MIB), Message("bytes", MIB)]),
                    ReceiveFrom((to,), source, 2, timeout=8.0),
                ]
    return [*steps, Wait(within=40.0)]


def _broadcasts() -> list[AnyStep]:
    steps: list[AnyStep] = [*JOIN_GROUP]
    for size in (64, 100_000, 8 * MIB):
        for source in _EVERY:
            batch = [small(6), Message("array", size), small(2)]
            steps.append(Broadcast(source, batch, timeout=8.0))
    return [*steps, Wait(within=40.0)]


def _lanes_apart() -> list[AnyStep]:
    """Objects that were sent first are taken last, and the other way about: lanes do not mix."""
    return [
        *JOIN_GROUP,
        SendTo("rank-0", "rank-1", [small(3)]),
        Broadcast("rank-0", [small(3), Message("array", 70_000)], timeout=9.0),
        SendTo("rank-0", "rank-1", [small(2), Message("nested", 900)]),
        SendTo("rank-2", "rank-1", [small(4)]),
        Gather(Message("bytes", 500), times=2, timeout=9.0),
        Barrier(times=2),
        ReceiveFrom(("rank-1",), "rank-2", 4, timeout=9.0),
        ReceiveFrom(("rank-1",), "rank-0", 6, timeout=9.0),
        Wait(within=30.0),
    ]


def _late_joiner() -> list[AnyStep]:
    return [
        Join(("rank-0", "rank-1")),
        WaitBlocked(("rank-0", "rank-1")),
        Pause(0.5),
        Join(("rank-2",)),
        Wait(within=30.0),
        *around(_EVERY, [small(2)]),
        Wait(within=20.0),
    ]


def _retried() -> list[AnyStep]:
    return [
        *JOIN_GROUP,
        ReceiveFrom(("rank-1",), "rank-0", 2, timeout=0.2, keep_on=True),
        Wait(within=8.0),
        SendTo("rank-0", "rank-1", [small(3)]),
        ReceiveFrom(("rank-1",), "rank-0", 3, timeout=5.0),
        Wait(within=12.0),
    ]


_WINDOWS = 20
"""A fifth of them to warm up."""


def _growth(window: list[AnyStep]) -> list[AnyStep]:
    """Windows of objects, each rank weighed after each."""
    steps: list[AnyStep] = [*JOIN_GROUP, *window, *window, Wait(within=40.0)]
    for _ in range(_WINDOWS):
        steps += [*window, Wait(within=40.0), MeasureMemory()]
    return steps


_MANY: list[AnyStep] = [
    *around(_EVERY, [small(80, 256)]),
    *(Broadcast(source, [small(25, 256)], timeout=8.0) for source in _EVERY),
    Gather(Message(size=256), times=20, timeout=8.0),
    Barrier(times=20),
]
_HEAVY: list[AnyStep] = [
    *around(_EVERY, [Message("array", 64 * 1024, repeat=6)]),
    Broadcast("rank-0", [Message("array", 256 * 1024, repeat=3)], timeout=8.0),
    Gather(Message("array", 64 * 1024), times=2, timeout=8.0),
    Barrier(),
]


def _clock(hours: float) -> list[AnyStep]:
    """Objects lie unread while the clocks of all who keep something jump."""
    first, then = [small(3), Message("array", 90_000)], [small(2)]
    return [
        *JOIN_GROUP,
        Broadcast("rank-0", first, ("rank-0",)),
        SendTo("rank-0", "rank-1", first),
        SendTo("rank-1", "rank-2", first),
        Wait(within=10.0),
        Pause(0.3),
        *(Fault("jump-clock", role, hours=hours) for role in ("rank-0", "rank-1")),
        Broadcast("rank-0", then, ("rank-0",)),
        SendTo("rank-0", "rank-1", then),
        SendTo("rank-1", "rank-2", then),
        Wait(within=10.0),
        Broadcast("rank-0", [*first, *then], ("rank-1", "rank-2"), timeout=2.0),
        ReceiveFrom(("rank-1",), "rank-0", 6, timeout=2.0),
        ReceiveFrom(("rank-2",), "rank-1", 6, timeout=2.0),
        Barrier(),
        Wait(within=20.0),
    ]


def _jumps_in_barrier(case_run: CaseRun) -> None:
    """The host's clock jumps at lines of its barrier; the others come one after the other.

    So the host polls once more, at the new hour, before all are there.
    """
    at = Point("barrier")

    def waited(step: AnyStep) -> Scenario:
        return group_scenario(
            case_run.outcome.id,
            *JOIN_GROUP,
            Barrier(),
            Wait(within=20.0),
            step,
            Barrier(("rank-0",), timeout=9.0),
            WaitBlocked(("rank-0",)),
            Barrier(("rank-1",), timeout=9.0),
            WaitBlocked(("rank-1",)),
            Barrier(("rank-2",), timeout=9.0),
            Wait(within=12.0),
        )

    count = (
        surely(count_lines(case_run, "rank-0", at, waited)) * 2 // 3
    )  # the rest is after the wait
    step = 1 if case_run.full else max(1, count // 5)
    for line in range(count - 1, -1, -step):
        where = msgspec.structs.replace(at, line=line)
        case_run.play(waited(Fault("jump-clock", "rank-0", where, hours=2.0)))


def _case(
    id: str, summary: str, steps: list[AnyStep], *, count: int = 3, host: str = "127.0.0.1"
) -> Case:
    def run(case_run: CaseRun) -> None:
        found = group_scenario(id, *steps, count=count, host=host)
        case_run.play(msgspec.structs.replace(found, seed=case_run.seed))

    return Case(id, summary, run, frozenset({"group"}))


_ORDER = (
    _case(
        "G1/all-to-all",
        "every rank sends to every other at once, several kinds",
        [*JOIN_GROUP, *all_to_all(_EVERY, _KINDS), Wait(within=30.0)],
    ),
    _case("G1/large", "objects of 8 MiB between each pair", _large()),
    _case("G1/broadcasts", "every rank broadcasts, small to 8 MiB", _broadcasts()),
    _case(
        "G1/gathers",
        "small and large objects are gathered",
        [
            *JOIN_GROUP,
            Gather(times=10, timeout=9.0),
            Gather(Message("array", 300_000), times=3, timeout=9.0),
            Wait(within=30.0),
        ],
    ),
    _case("G1/lanes-apart", "sends, broadcasts and gathers taken in another order", _lanes_apart()),
    _case("G1/late-joiner", "one rank comes half a second later", _late_joiner()),
    _case("G1/retry-after-timeout", "a receive that ran out is made again", _retried()),
    _case(
        "G1/eight-ranks",
        "eight ranks broadcast, gather, meet and send",
        [
            *JOIN_GROUP,
            Broadcast("rank-5", [small(5)], timeout=9.0),
            Gather(times=3, timeout=9.0),
            Barrier(times=5),
            *around(ranks(8), [small(4)]),
            Wait(within=40.0),
        ],
        count=8,
    ),
    Case(
        "G1/stories",
        "programs that Hypothesis writes, every call in any order",
        lambda case_run: fuzz_group_stories(case_run, "G1/stories", 60 if case_run.full else 6),
        frozenset({"group"}),
    ),
)

_GROWTH = (
    _case("G2/many-small-objects", "thousands of small objects and barriers", _growth(_MANY)),
    _case("G2/large-objects", "tens of MiB in large objects", _growth(_HEAVY)),
)

_CLOCK = (
    _case("G5/clock-forward", "clocks jump 2 h forth while objects lie unread", _clock(2.0)),
    _case("G5/clock-back", "clocks jump 2 h back while objects lie unread", _clock(-2.0)),
    Case(
        "G5/clock-jumps-in-barrier",
        "the host's clock jumps 2 h forth at lines of its barrier",
        _jumps_in_barrier,
        frozenset({"group", "points"}),
    ),
    _case(
        "G5/ipv6-host",
        "the host listens at ::1",
        [
            *JOIN_GROUP,
            *around(_EVERY, [small(4)]),
            Gather(times=2, timeout=9.0),
            Barrier(),
            Wait(within=20.0),
        ],
        host="::1",
    ),
)

CASES: tuple[Case, ...] = (*_ORDER, *_GROWTH, *ENDS, *NETWORK, *_CLOCK)
