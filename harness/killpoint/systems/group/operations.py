"""The operations of a process group's ranks."""

from __future__ import annotations

from killpoint.scenario import (
    AnyStep,
    Barrier,
    Broadcast,
    Gather,
    Join,
    Leave,
    Message,
    ReceiveFrom,
    SendTo,
    Verb,
    Wait,
)
from killpoint.search.operations import ENDLESS, HANG_AFTER_S, LARGE, SMALL, Operation

_JOINED: list[AnyStep] = [Join(timeout=8.0), Wait(within=20.0)]
_RANKS = ("rank-0", "rank-1", "rank-2")
_TAKEN = 3.0
"""Seconds for which a rank waits for an object that was sent to it long ago."""


def _joins(name: str, role: str) -> Operation:
    """Return a join of all ranks at once; no rank returns from it before all have come."""
    rest: list[AnyStep] = [
        Gather(timeout=8.0),
        SendTo(role, "rank-2", [SMALL]),
        ReceiveFrom(("rank-2",), role, 2, timeout=_TAKEN),
        Barrier(timeout=8.0),
        Wait(within=20.0),
    ]
    now: list[AnyStep] = [Join(timeout=8.0)]
    return Operation(name, role, "join", [], now, rest, ranks=len(_RANKS), joint=True)


def _sends(name: str, role: str, message: Message) -> Operation:
    """To the last rank; it takes until it hears that the sender has left."""
    rest: list[AnyStep] = [
        SendTo(role, "rank-2", [SMALL]),
        Leave((role,)),
        ReceiveFrom(("rank-2",), role, ENDLESS, timeout=_TAKEN),
        Wait(within=20.0),
    ]
    return _of_group(name, role, "send-to", [], [SendTo(role, "rank-2", [message])], rest)


def _takes(name: str, role: str) -> Operation:
    """From the last rank, which has sent three objects."""
    lead: list[AnyStep] = [SendTo("rank-2", role, [LARGE, SMALL]), Wait(within=HANG_AFTER_S)]
    now: list[AnyStep] = [ReceiveFrom((role,), "rank-2", 1, timeout=_TAKEN)]
    rest: list[AnyStep] = [
        ReceiveFrom((role,), "rank-2", 2, timeout=_TAKEN),
        Barrier(timeout=8.0),
        Wait(within=20.0),
    ]
    return _of_group(name, role, "receive-from", lead, now, rest)


def _airs(name: str, role: str) -> Operation:
    others = tuple(rank for rank in _RANKS if rank != role)
    rest: list[AnyStep] = [
        Broadcast(role, [SMALL], (role,)),
        Leave((role,)),
        Broadcast(role, [Message(repeat=ENDLESS)], others, timeout=_TAKEN),
        Wait(within=20.0),
    ]
    return _of_group(name, role, "broadcast", [], [Broadcast(role, [LARGE], (role,))], rest)


def _hears(name: str, role: str) -> Operation:
    source = "rank-2"
    lead: list[AnyStep] = [Broadcast(source, [LARGE, SMALL], (source,)), Wait(within=HANG_AFTER_S)]
    other = next(rank for rank in _RANKS if rank not in (role, source))
    rest: list[AnyStep] = [
        Broadcast(source, [SMALL], (role,), timeout=_TAKEN),
        Broadcast(source, [Message(repeat=3)], (other,), timeout=_TAKEN),
        Barrier(timeout=8.0),
        Wait(within=20.0),
    ]
    now: list[AnyStep] = [Broadcast(source, [Message()], (role,), timeout=_TAKEN)]
    return _of_group(name, role, "broadcast", lead, now, rest)


def _meets(name: str, role: str, verb: Verb) -> Operation:
    meeting: AnyStep = Gather(Message("bytes", 3000), timeout=8.0)
    if verb == "barrier":
        meeting = Barrier(timeout=8.0)
    rest: list[AnyStep] = [Gather(timeout=8.0), Barrier(timeout=8.0), Wait(within=20.0)]
    return _of_group(name, role, verb, [], [meeting], rest, joint=True)


def _leaves(name: str, role: str) -> Operation:
    """The last object that it sent is taken afterwards, and it is heard of that it has left."""
    lead: list[AnyStep] = [SendTo(role, "rank-2", [LARGE, SMALL]), Wait(within=HANG_AFTER_S)]
    rest: list[AnyStep] = [
        ReceiveFrom(("rank-2",), role, ENDLESS, timeout=_TAKEN),
        Wait(within=20.0),
    ]
    return _of_group(name, role, "leave", lead, [Leave((role,))], rest)


def _of_group(
    name: str,
    role: str,
    verb: Verb,
    lead: list[AnyStep],
    now: list[AnyStep],
    rest: list[AnyStep],
    *,
    joint: bool = False,
) -> Operation:
    return Operation(name, role, verb, [*_JOINED, *lead], now, rest, ranks=len(_RANKS), joint=joint)


GROUP: tuple[Operation, ...] = tuple(
    operation
    for who, role in (("host", "rank-0"), ("member", "rank-1"))
    for operation in (
        _sends(f"{who}-sends", role, Message()),
        _takes(f"{who}-receives", role),
        _airs(f"{who}-broadcasts", role),
        _hears(f"{who}-takes-broadcast", role),
        _meets(f"{who}-gathers", role, "gather"),
        _meets(f"{who}-in-barrier", role, "barrier"),
        _leaves(f"{who}-leaves", role),
    )
)
"""With three ranks, of the host and of a member."""

JOIN: tuple[Operation, ...] = (_joins("host-joins", "rank-0"), _joins("member-joins", "rank-1"))
"""The same, coming together."""
