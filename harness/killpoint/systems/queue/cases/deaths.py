"""Cases of deaths: a killed party's peers get an error in time and lose nothing (Q6, Q7)."""

from __future__ import annotations

import msgspec

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
from killpoint.search.crash_points import Around, TooLittleRoom, chosen, count_lines
from killpoint.search.operations import UNREAD_WITHIN
from killpoint.systems.queue.cases.builders import (
    MIB,
    OPEN_QUEUE,
    queue_case,
    queue_scenario,
    small,
)

_ENDLESS = 60
"""More receives than there are messages: each reader goes on until it is asked to stop."""
_PATIENT = 3.5
"""Seconds of a survivor's own deadline: longer than the 2 s in which the writer must get the
error."""
_OVERFLOWS = 2
"""Index of the overflow message in the mix, and so of its send and receive."""
_KILLS = frozenset({"queue", "points"})
_MIX = [small(2), Message("array", 100_000), small(2), Message("nested", 3000), small(1)]


def _after_marker() -> list[Scenario]:
    id = "Q6/writer-dies-after-overflow-marker"
    steps = [
        *OPEN_QUEUE,
        Send([small(2)], timeout=5.0),
        Fault("kill", "writer", Point("send", name="overflow-marker")),
        Send([Message("array", 8 * MIB)], timeout=5.0),
        Receive(_ENDLESS),
        Wait(("readers",), within=4.0),
    ]
    return [queue_scenario(id, *steps)]


def _after_return() -> list[Scenario]:
    """No point: the writer is killed as soon as it is seen that its send came back."""
    id = "Q6/writer-killed-after-large-send"
    steps = [
        *OPEN_QUEUE,
        Receive(_ENDLESS),
        Send([small(1)], timeout=5.0),
        Wait(("writer",)),
        WaitBlocked(("readers",)),
        Send([Message("bytes", 48 * MIB)], timeout=20.0, mutate=False),
        Wait(("writer",), within=30.0),
        Fault("kill", "writer"),
        Wait(("readers",), within=4.0),
    ]
    return [queue_scenario(id, *steps, readers=1)]


def _idle_writer() -> list[Scenario]:
    id = "Q6/writer-dies-while-readers-wait"
    steps = [
        *OPEN_QUEUE,
        Send([small(3)], timeout=5.0),
        Receive(_ENDLESS),
        WaitBlocked(("readers",)),
        Fault("kill", "writer"),
        Wait(("readers",), within=4.0),
    ]
    return [queue_scenario(id, *steps)]


def _unread() -> list[Scenario]:
    id = "Q6/published-before-death"
    steps = [
        *OPEN_QUEUE,
        Send([small(3), Message("array", 9000)], timeout=5.0),
        Wait(("writer",)),
        Fault("kill", "writer"),
        Receive(_ENDLESS),
        Wait(("readers",), within=4.0),
    ]
    return [queue_scenario(id, *steps)]


def around_death(id: str, role: str, remote: int = 0, *, ahead: bool = True) -> Around:
    """Return the scenario around a death of this role inside one of its operations.

    A writer's death is followed by readers that read until they get an error; a reader's by a
    writer that goes on to fill the ring. Where no role dies (to count the lines) the close ends it.
    ``ahead``: whether the writer has sent everything before the reader receives.
    """

    def around(step: AnyStep) -> Scenario:
        if role == "writer":
            steps = [*OPEN_QUEUE, step, Send(_MIX, timeout=10.0), Close(("writer",))]
            steps += [Receive(_ENDLESS), Wait(within=5.0)]
            return queue_scenario(id, *steps, chunks=8, remote=remote)
        first, more = Receive(7, (role,), timeout=5.0), Receive(_ENDLESS, timeout=_PATIENT)
        sending = Send(_MIX, timeout=UNREAD_WITHIN)
        if ahead:
            steps = [*OPEN_QUEUE, sending, Wait(("writer",)), step, first, Wait((role,)), more]
        else:
            other = "reader-0" if role == "reader-1" else "reader-1"
            steps = [
                *OPEN_QUEUE,
                step,
                first,
                msgspec.structs.replace(more, roles=(other,)),
                sending,
            ]
            steps += [Wait((role,)), msgspec.structs.replace(more, roles=(role,))]
        steps += [Send([small(20)]), Wait(("writer",), within=4.0), Close(("writer",))]
        return queue_scenario(id, *steps, Wait(within=8.0), chunks=8, remote=remote)

    return around


PLACES: dict[str, list[tuple[Verb, int]]] = {
    "writer": [("send", 0), ("send", 2), ("send", 5), ("close", 0)],
    "reader-0": [("receive", 0), ("receive", 2), ("receive", 5)],
}
"""Operations of each role, and which of them in turn: inline, overflow, inline again."""

FROM_AFAR: dict[str, list[tuple[Verb, int]]] = {
    "writer": [("send", 2), ("close", 0)],
    "reader-1": [("receive", 2)],
}
"""The same where the last reader is remote: to it, all messages go the same way."""


def anywhere(case_run: CaseRun, role: str, samples: int, remote: int = 0) -> None:
    """Kill a role at lines of each of its operations; ``remote``: how many readers are."""
    places = FROM_AFAR[role] if remote else PLACES[role]
    ahead = True
    for index, (op, nth) in enumerate(places):
        around = around_death(case_run.outcome.id, role, remote, ahead=ahead)
        at = Point(op, nth=nth, depth=case_run.depth)
        try:
            count = count_lines(case_run, role, at, around)
        except TooLittleRoom:
            ahead = False
            around = around_death(case_run.outcome.id, role, remote, ahead=ahead)
            count = count_lines(case_run, role, at, around)
        share = samples * (index + 1) // len(places) - samples * index // len(places)
        for line in case_run.with_progress(chosen(case_run, count, share)):
            where = msgspec.structs.replace(at, line=line)
            case_run.play(
                around(Fault("kill", role, where)), may_miss=may_miss(where, count, remote)
            )


def may_miss(at: Point, count: int, remote: int = 0) -> bool:
    """Return whether an operation may end before this line, if so many of its lines were counted.

    How often a call polls differs where payloads or parties come from elsewhere; and any call may
    read a clock, and do a little less another time.
    """
    surely = count // 2 if at.nth == _OVERFLOWS or remote else count * 3 // 4
    return (at.line or 0) >= surely


def _idle_reader() -> list[Scenario]:
    id = "Q7/reader-dies-idle"
    steps = [
        *OPEN_QUEUE,
        Receive(_ENDLESS, timeout=_PATIENT),
        Send([small(3)], timeout=5.0),
        WaitBlocked(("readers",)),
        Fault("kill", "reader-0"),
        Send([small(16)]),
        Wait(("writer",), within=4.0),
        Close(("writer",)),
        Wait(within=8.0),
    ]
    return [queue_scenario(id, *steps)]


def _full() -> list[Scenario]:
    id = "Q7/reader-dies-while-writer-waits"
    steps = [
        *OPEN_QUEUE,
        Receive(_ENDLESS, ("reader-1",), timeout=_PATIENT),
        Send([small(12)]),
        WaitBlocked(("writer",)),
        Fault("kill", "reader-0"),
        Wait(("writer",), within=4.0),
        Close(("writer",)),
        Wait(within=8.0),
    ]
    return [queue_scenario(id, *steps)]


CASES: tuple[Case, ...] = (
    queue_case(
        "Q6/writer-dies-after-overflow-marker",
        "the slot says that a payload follows; the writer is killed before it does",
        _after_marker,
        "points",
        "slots",
    ),
    queue_case(
        "Q6/writer-killed-after-large-send",
        "the writer is killed right after its send of a large message returned",
        _after_return,
    ),
    queue_case(
        "Q6/writer-dies-while-readers-wait", "the readers wait on an empty ring", _idle_writer
    ),
    queue_case("Q6/published-before-death", "messages are unread when the writer dies", _unread),
    Case(
        "Q6/writer-killed-anywhere",
        "SIGKILL at lines of send (inline, overflow) and close",
        lambda case_run: anywhere(case_run, "writer", 28),
        _KILLS,
    ),
    queue_case(
        "Q7/reader-dies-idle", "a waiting reader dies; the writer fills the ring", _idle_reader
    ),
    queue_case(
        "Q7/reader-dies-while-writer-waits", "the writer waits for the one that dies", _full
    ),
    Case(
        "Q7/reader-killed-anywhere",
        "SIGKILL at lines of receive (inline, overflow)",
        lambda case_run: anywhere(case_run, "reader-0", 20),
        _KILLS,
    ),
)
