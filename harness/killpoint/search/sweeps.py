"""Deaths and stops at lines of every operation, and what the others do then, and afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from killpoint.scenario import (
    AnyStep,
    Attach,
    Barrier,
    Close,
    Fault,
    FaultName,
    Join,
    Message,
    Pause,
    Point,
    Ready,
    Receive,
    ReceiveFrom,
    Scenario,
    Send,
    SendTo,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import TooLittleRoom, chosen, count_lines
from killpoint.search.operations import Operation

_HANG_AFTER_S = 8.0
_STANDS = 0.03
"""Seconds that a stopped role stands while the others go on or wait for it."""
_PATIENT = 3.5
"""Seconds of a survivor's own deadline: longer than the 2 s in which it must get the error."""
_SHORT = 1.0
"""Seconds that those who wait for the dead role give it."""

_BARE = "departures that run no code of the target's"
_UNREAD = "operations that need more room for unread messages"

Around = Callable[[Operation, str, Fault], Scenario]


def around_stop(operation: Operation, id: str, stop: Fault) -> Scenario:
    """The role is stopped inside the call, and goes on a little later."""
    return operation.scenario(
        id,
        *operation.lead,
        stop,
        *operation.during,
        Pause(_STANDS),
        Fault("continue", operation.role),
        Wait(within=20.0),
        *operation.counted(),
    )


def around_death(operation: Operation, id: str, kill: Fault) -> Scenario:
    """The role is killed inside the call; the others get an error, and lose nothing."""
    after = _in_group if operation.ranks else _in_queue
    found = operation.scenario(id, *operation.lead, kill, *after(operation))
    return msgspec.structs.replace(found, restart=operation.verb == "make")


def _in_queue(operation: Operation) -> list[AnyStep]:
    role = operation.role
    if operation.verb in ("ready", "attach"):
        tried = [Attach((role,))] if operation.verb == "attach" else []
        here = tuple(each for each in ("writer", "reader-0", "reader-1") if each != role)
        whole = ("all",) if operation.verb == "ready" else here
        return [*tried, Ready(whole, timeout=_SHORT), Wait(within=_HANG_AFTER_S)]
    if operation.verb == "make":
        return [*operation.during, Wait(within=_HANG_AFTER_S)]
    other: tuple[str, ...] = ("readers",) if role == "writer" else ("reader-0",)
    more: list[AnyStep] = [Receive(60, other, timeout=_PATIENT)]
    if role != "writer":
        more += [Send([Message(repeat=20)]), Wait(("writer",), within=4.0), Close(("writer",))]
    return [
        *operation.during,
        Wait((role,), within=_HANG_AFTER_S),
        *more,
        Wait(within=_HANG_AFTER_S),
    ]


def _in_group(operation: Operation) -> list[AnyStep]:
    role = operation.role
    others = tuple(f"rank-{rank}" for rank in range(operation.ranks) if f"rank-{rank}" != role)
    if operation.verb == "join":
        # Killed at the end of it, all may be whole: who needs it next is told.
        meets = Barrier(others, timeout=_SHORT)
        return [
            Join(timeout=_SHORT),
            Wait(within=_HANG_AFTER_S),
            meets,
            Wait(others, within=_HANG_AFTER_S),
        ]
    if role == "rank-0":
        meet: list[AnyStep] = [
            Barrier(others, timeout=_HANG_AFTER_S),
            Wait(others, within=_HANG_AFTER_S),
        ]
        # Killed while it leaves, it may have said so before: then a later call is told once more.
        again = [Wait((role,), within=_HANG_AFTER_S), *meet] if operation.verb == "leave" else []
        return [*operation.during, *meet, *again]
    first, last = others[0], others[-1]
    rest: list[AnyStep] = [
        Wait(within=_HANG_AFTER_S + 4.0),
        SendTo(last, first, [Message(repeat=2)]),
        ReceiveFrom((first,), last, 2, timeout=3.0),
        ReceiveFrom(others, role, 4, timeout=3.0),
        Wait(within=_HANG_AFTER_S),
    ]
    return [*operation.during, *rest]


def placed(
    case_run: CaseRun, operations: Sequence[Operation], samples: int
) -> Iterator[tuple[Operation, Point, bool]]:
    """Points in these operations, ``samples`` of them in all; every one under ``--full``.

    With fewer samples than operations the seed chooses among these. The third of each is whether
    the call may come to its end before it. Operations that leave more unread than the queue holds
    are left out.
    """
    if samples < len(operations) and not case_run.full:
        operations = case_run.random.sample(operations, samples)
    for index, operation in enumerate(operations):

        def around(step: AnyStep, operation: Operation = operation) -> Scenario:
            return operation.plainly(case_run.outcome.id, step)

        at = Point(operation.verb, depth=case_run.depth)
        some = not operation.departs
        try:
            count = count_lines(case_run, operation.role, at, around, plays=1, some=some)
        except TooLittleRoom:
            counts = case_run.outcome.counts
            counts[_UNREAD] = counts.get(_UNREAD, 0) + 1
            if counts[_UNREAD] == len(operations):
                raise
            continue
        if not count:
            counts = case_run.outcome.counts
            counts[_BARE] = counts.get(_BARE, 0) + 1
        share = samples * (index + 1) // len(operations) - samples * index // len(operations)
        for line in case_run.with_progress(chosen(case_run, operation.worth(count), share)):
            where = msgspec.structs.replace(at, line=line)
            yield operation, where, line >= operation.surely(count)


def sweep(
    case_run: CaseRun,
    operations: Sequence[Operation],
    samples: int,
    fault: FaultName,
    around: Around,
) -> None:
    """Play a story around a fault at points of these operations."""
    for operation, point, may_miss in placed(case_run, operations, samples):
        story = around(operation, case_run.outcome.id, Fault(fault, operation.role, point))
        case_run.play(story, may_miss=may_miss)
