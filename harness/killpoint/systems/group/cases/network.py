"""Cases of ranks whose connection is cut, deaf in one direction, or reset (G4)."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.checkers.partition import DEFAULT_SILENCE
from killpoint.scenario import (
    AnyStep,
    Barrier,
    Broadcast,
    Fault,
    Message,
    Pause,
    ReceiveFrom,
    SendTo,
    Wait,
    WaitBlocked,
)
from killpoint.search.case_run import CaseRun
from killpoint.systems.group.cases.builders import JOIN_GROUP, group_scenario, ranks
from killpoint.systems.queue.cases.builders import small
from killpoint.targets.shapes import GroupShape

_HOST = "rank-0"
_TOLD_WITHIN = DEFAULT_SILENCE + 3.5
"""For a target whose silence cannot be set; any other ends the wait much sooner."""
_BATCH = [small(5), Message("array", 100_000), Message("nested", 3000)]
_EACH = sum(message.repeat for message in _BATCH)


def _case(id: str, summary: str, steps: list[AnyStep], shape: GroupShape) -> Case:
    def run(case_run: CaseRun) -> None:
        made = group_scenario(id, *steps, count=shape.ranks)
        case_run.play(msgspec.structs.replace(made, group=shape, seed=case_run.seed))

    return Case(id, summary, run, frozenset({"group"}))


def _sent(roles: tuple[str, ...]) -> list[AnyStep]:
    """Each rank sends a batch to the next: no rank takes from two, and the host relays all."""
    return [SendTo(role, to, _BATCH) for role, to in _next(roles)]


def _taken(roles: tuple[str, ...], batches: int, timeout: float = 9.0) -> list[AnyStep]:
    """Each rank receives so many of these batches."""
    count = batches * _EACH
    return [ReceiveFrom((to,), role, count, timeout=timeout) for role, to in _next(roles)]


def _next(roles: tuple[str, ...]) -> list[tuple[str, str]]:
    return list(zip(roles, (*roles[1:], roles[0]), strict=True))


def _cut_three_seconds() -> list[AnyStep]:
    """One member is deaf, one is not heard, one is cut off both ways."""
    everyone = ranks(4)
    cuts = (
        Fault("cut", "rank-1", toward="role"),
        Fault("cut", "rank-2", toward="peer"),
        Fault("cut", "rank-3"),
    )
    return [
        *JOIN_GROUP,
        *_sent(everyone),
        *cuts,
        *_sent(everyone),
        *_taken(everyone, 2),
        Pause(3.0),
        *(Fault("heal", cut.role) for cut in cuts),
        *_sent(everyone),
        *_taken(everyone, 1),
        Barrier(timeout=9.0),
        Wait(within=25.0),
    ]


def _told(*faults: Fault) -> list[AnyStep]:
    """Each rank waits for another when one is cut off; the two that are left go on."""
    left = ("rank-0", "rank-2")
    return [
        *JOIN_GROUP,
        SendTo("rank-1", _HOST, [small(3)]),
        ReceiveFrom((_HOST,), "rank-1", 3, timeout=5.0),
        Wait(),
        ReceiveFrom((_HOST,), "rank-1"),
        ReceiveFrom(("rank-1",), _HOST),
        Barrier(("rank-2",)),
        WaitBlocked(ranks(3)),
        *faults,
        Wait(within=_TOLD_WITHIN),
        Broadcast(_HOST, [small(2)], left, timeout=5.0),
        Wait(within=8.0),
    ]


def _reset() -> list[AnyStep]:
    """Bytes are on a long way when connections are reset, and again while they come back."""
    everyone = ranks(3)
    members = everyone[1:]
    return [
        *JOIN_GROUP,
        *(Fault("delay", member, pause=0.05) for member in members),
        *_sent(everyone),
        Pause(0.03),
        Fault("reset", "rank-1"),
        *_sent(everyone),
        Pause(0.13),
        *(Fault("reset", member) for member in members),
        *(Fault("heal", member) for member in members),
        *_sent(everyone),
        *_taken(everyone, 3, timeout=5.0),
        Barrier(timeout=5.0),
        Wait(within=25.0),
    ]


NETWORK: tuple[Case, ...] = (
    _case(
        "G4/cut-3s-loses-nothing",
        "cuts of 3 s in each direction and both; objects sent before, during and after",
        _cut_three_seconds(),
        GroupShape(ranks=4),
    ),
    _case(
        "G4/cut-past-silence-is-told",
        "a member's cut lasts: it, the host and the others are told, and of whom",
        _told(Fault("cut", "rank-1")),
        GroupShape(ranks=3, silence=2.5),
    ),
    _case(
        "G4/half-open-toward-member",
        "a member hears nothing more, the host does: all are told",
        _told(Fault("half-open", "rank-1", toward="role")),
        GroupShape(ranks=3, silence=1.5),
    ),
    _case(
        "G4/half-open-toward-host",
        "the host hears nothing more of a member, which hears it: all are told",
        _told(Fault("half-open", "rank-1", toward="peer")),
        GroupShape(ranks=3, silence=1.5),
    ),
    _case(
        "G4/reset-loses-nothing",
        "members' connections are reset with bytes on the way, twice",
        _reset(),
        GroupShape(ranks=3),
    ),
)
