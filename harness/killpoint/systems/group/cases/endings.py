"""Cases of ranks that do not come, die (G3) or leave (G4), and of what they leave behind (L1)."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Barrier,
    Broadcast,
    Exit,
    Fault,
    Gather,
    Join,
    Leave,
    Message,
    Pause,
    Point,
    ReceiveFrom,
    Scenario,
    SendTo,
    Verb,
    Wait,
    WaitBlocked,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import chosen, count_lines
from killpoint.systems.group.cases.builders import JOIN_GROUP, group_scenario, ranks, surely
from killpoint.systems.queue.cases.builders import MIB, small

_SHORT = 0.8
"""A barrier's own timeout."""
_GIVEN = 6.0
"""Seconds after which a wait that should have ended is a hang."""
_HOST, _OTHERS = "rank-0", ("rank-1", "rank-2")
_LARGE = [Message("array", 8 * MIB), small(3)]
_KILLS = frozenset({"group", "points"})


def _one(id: str, summary: str, *steps: AnyStep, restart: bool = False) -> Case:
    def run(case_run: CaseRun) -> None:
        found = group_scenario(id, *steps)
        case_run.play(msgspec.structs.replace(found, seed=case_run.seed, restart=restart))

    return Case(id, summary, run, frozenset({"group"}))


def _barrier_killed_anywhere(case_run: CaseRun) -> None:
    """The two others wait for the third, which dies at lines of its barrier."""

    def around(step: AnyStep) -> Scenario:
        waiting = ("rank-0", "rank-1")
        return group_scenario(
            case_run.outcome.id,
            *JOIN_GROUP,
            step,
            Barrier(waiting, timeout=3.0),
            WaitBlocked(waiting),
            Barrier(("rank-2",), timeout=3.0),
            Wait(within=3.0 + _GIVEN),
            Barrier(waiting, timeout=_SHORT),
            Wait(within=_GIVEN),
        )

    count = count_lines(case_run, "rank-2", Point("barrier"), around)
    for line in case_run.with_progress(chosen(case_run, surely(count), 4)):
        case_run.play(around(Fault("kill", "rank-2", Point("barrier", line=line))))


_OPERATIONS: dict[Verb, AnyStep] = {
    "broadcast": Broadcast(_HOST, [Message("array", 100_000)], timeout=8.0),
    "gather": Gather(Message("bytes", 3000), timeout=8.0),
    "barrier": Barrier(timeout=8.0),
}


def _host_killed_anywhere(case_run: CaseRun) -> None:
    """The host dies at lines of its operations; the others learn of it by their next call."""
    for verb, operation in _OPERATIONS.items():

        def around(step: AnyStep, operation: AnyStep = operation) -> Scenario:
            return group_scenario(
                case_run.outcome.id,
                *JOIN_GROUP,
                step,
                operation,
                Barrier(_OTHERS, timeout=8.0),
                Wait(_OTHERS, within=7.0),
            )

        def counted(step: AnyStep, operation: AnyStep = operation) -> Scenario:
            return group_scenario(
                case_run.outcome.id, *JOIN_GROUP, step, operation, Wait(within=9.0)
            )

        count = count_lines(case_run, _HOST, Point(verb), counted)
        for line in case_run.with_progress(
            chosen(case_run, surely(count), 3 if verb == "barrier" else 2)
        ):
            case_run.play(around(Fault("kill", _HOST, Point(verb, line=line))))


_VAIN = (
    _one(
        "G3/absent-rank",
        "one rank never comes to the barrier",
        *JOIN_GROUP,
        Barrier(("rank-0", "rank-1"), timeout=_SHORT),
        Wait(within=_GIVEN),
    ),
    _one(
        "G3/absent-host",
        "the host never comes to the barrier",
        *JOIN_GROUP,
        Barrier(_OTHERS, timeout=_SHORT),
        Wait(within=_GIVEN),
    ),
    _one(
        "G3/dead-before",
        "a rank is dead before the others begin their barrier",
        *JOIN_GROUP,
        Fault("kill", "rank-2"),
        Barrier(("rank-0", "rank-1"), timeout=_SHORT),
        Wait(within=_GIVEN),
    ),
    _one(
        "G3/dead-while-it-waits",
        "a rank dies inside its barrier; the last one comes afterwards",
        *JOIN_GROUP,
        Barrier(("rank-0", "rank-2"), timeout=6.0),
        WaitBlocked(("rank-0", "rank-2")),
        Fault("kill", "rank-2"),
        Pause(2.5),
        Barrier(("rank-1",), timeout=_SHORT),
        Wait(within=6.0 + _GIVEN),
    ),
    Case(
        "G3/killed-anywhere-in-barrier",
        "SIGKILL at lines of a rank's barrier, while the others wait for it",
        _barrier_killed_anywhere,
        _KILLS,
    ),
    _one(
        "G3/join-without-a-rank",
        "one rank never joins",
        Join(("rank-0", "rank-1"), timeout=_SHORT),
        Wait(within=_GIVEN),
    ),
    _one(
        "G3/join-without-the-host",
        "the host never joins",
        Join(_OTHERS, timeout=_SHORT),
        Wait(within=_GIVEN),
    ),
)


def _link_down(id: str, summary: str, cut: str) -> Case:
    """A rank's link is cut: the rank lives on, unheard, and no connection breaks."""
    others = tuple(role for role in ranks(3) if role != cut)

    def run(case_run: CaseRun) -> None:
        steps = [Fault("cut", cut), Barrier(others, timeout=_SHORT), Wait(others, within=_GIVEN)]
        found = group_scenario(id, *JOIN_GROUP, Barrier(), Wait(), *steps, Fault("heal", cut))
        case_run.play(msgspec.structs.replace(found, seed=case_run.seed, namespaces=True))

    return Case(id, summary, run, frozenset({"group"}))


_LINKS = (
    _link_down("G3/link-down", "the link of a rank is down when the others meet", "rank-2"),
    _link_down("G3/link-down-of-host", "the host's link is down when the others meet", _HOST),
)

_LEAVES = (
    _one(
        "G4/host-leaves-after-broadcast",
        "the host broadcasts 8 MiB and leaves; the others take it later",
        *JOIN_GROUP,
        Broadcast(_HOST, _LARGE, (_HOST,)),
        Leave((_HOST,)),
        Exit((_HOST,)),
        Pause(0.4),
        Broadcast(_HOST, _LARGE, _OTHERS, timeout=5.0),
        Leave(_OTHERS),
        Wait(within=15.0),
    ),
    _one(
        "G4/host-leaves-after-barrier",
        "the host leaves as soon as its barrier has ended",
        *JOIN_GROUP,
        Barrier(),
        Leave((_HOST,)),
        Exit((_HOST,)),
        Pause(0.2),
        Leave(_OTHERS),
        Wait(within=15.0),
    ),
    _one(
        "G4/all-leave-after-gather",
        "everybody leaves as soon as they have gathered",
        *JOIN_GROUP,
        Gather(Message("array", MIB), timeout=9.0),
        Leave(),
        Exit(ranks(3)),
        Wait(within=15.0),
    ),
    _one(
        "G4/member-leaves-after-send",
        "a rank sends 8 MiB and leaves; the other takes it later",
        *JOIN_GROUP,
        SendTo("rank-1", "rank-2", _LARGE),
        Leave(("rank-1",)),
        Exit(("rank-1",)),
        Pause(0.4),
        ReceiveFrom(("rank-2",), "rank-1", 4, timeout=5.0),
        Wait(within=15.0),
    ),
    _one(
        "G4/member-killed",
        "a rank dies while another waits for it; the rest goes on",
        *JOIN_GROUP,
        SendTo("rank-2", "rank-1", [small(3)]),
        ReceiveFrom(("rank-1",), "rank-2", 3, timeout=5.0),
        Wait(within=10.0),
        ReceiveFrom(("rank-1",), "rank-2", 1, timeout=1.5),
        WaitBlocked(("rank-1",)),
        Fault("kill", "rank-2"),
        Wait(within=_GIVEN),
        Broadcast(_HOST, [small(3), Message("array", 90_000)], (_HOST, "rank-1"), timeout=5.0),
        SendTo("rank-1", "rank-0", [small(3)]),
        ReceiveFrom(("rank-0",), "rank-1", 3, timeout=5.0),
        Wait(within=10.0),
    ),
    _one(
        "G4/host-killed-while-others-wait",
        "the others wait for each other when the host dies",
        *JOIN_GROUP,
        ReceiveFrom(("rank-1",), "rank-2", 1, timeout=8.0),
        Barrier(("rank-2",), timeout=8.0),
        WaitBlocked(_OTHERS),
        Fault("kill", _HOST),
        Wait(_OTHERS, within=5.0),
    ),
    _one(
        "G4/host-killed-idle",
        "the host dies while nobody does anything; then they call",
        *JOIN_GROUP,
        Fault("kill", _HOST),
        ReceiveFrom(("rank-1",), _HOST, 1, timeout=8.0),
        Gather(roles=("rank-2",), timeout=8.0),
        Wait(_OTHERS, within=5.0),
    ),
    Case(
        "G4/host-killed-anywhere",
        "SIGKILL at lines of the host's broadcast, gather and barrier",
        _host_killed_anywhere,
        _KILLS,
    ),
)

_LEAKS = (
    _one(
        "L1/group-clean-end", "an ordinary life of a group", *JOIN_GROUP, Barrier(), Leave(), Wait()
    ),
    _one(
        "L1/group-killed-then-next-start",
        "every rank is killed; the next group starts",
        *JOIN_GROUP,
        *(Fault("kill", role) for role in ranks(3)),
        restart=True,
    ),
)

ENDS: tuple[Case, ...] = (*_VAIN, *_LINKS, *_LEAVES, *_LEAKS)
