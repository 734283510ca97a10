"""Every operation of every system, in every role: how to play it, so that sweeps can strike it.

A system gets its sweeps by naming its operations here: what leads to one, the steps during which
the role makes the call, and what shows afterwards that nothing was lost.
"""

from __future__ import annotations

from typing import Any

import msgspec

from killpoint.scenario import (
    AnyStep,
    Attach,
    Barrier,
    Broadcast,
    Close,
    Gather,
    Join,
    Leave,
    Make,
    Message,
    Pause,
    PipeClose,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Ready,
    Receive,
    ReceiveFrom,
    Scenario,
    Send,
    SendTo,
    Tensor,
    Verb,
    Wait,
)
from killpoint.targets.protocol import GroupShape, PipeShape, PoolShape, QueueShape

_ENDLESS = 60
"""More receives than there are messages: each rank goes on until it is told to stop."""
_ALL = 1_000
"""As many receives as a reader has messages to come: see :func:`_counted`."""
_LARGE, _APART = Message("array", 100_000), Message("nested", 9000)
_IN_A_SLOT = Message("array", 2_500_000)
"""Large, and in a slot all the same: some implementations pass it on in pieces."""
_GIVEN = 8.0
"""When a wait that should have ended by then is a hang."""
_SMALL = Message(repeat=2)


class Operation(msgspec.Struct, frozen=True):
    """One call of one role, and the story around it."""

    name: str
    """Such as ``send-inline``; the same call in another role has another name."""
    role: str
    verb: Verb
    lead: list[AnyStep]
    """What comes before: the parties are there, and something to work on."""
    during: list[AnyStep]
    """The call itself, and what others do at the same time."""
    rest: list[AnyStep]
    """What comes after: every message is taken, and everybody leaves."""
    remote: int = 0
    """How many of its two readers are reached over TCP."""
    ranks: int = 0
    """Of a group, instead of a queue."""
    joint: bool = False
    """Whether others wait in ``during`` for this role to come (again)."""
    waits: bool = False
    """Whether it may have to wait for something that is on its way."""
    paced: bool = False
    """Whether readers' pace says how often it looks about: a count may be of a slow one."""
    chunk_bytes: int = 64 * 1024
    pool: PoolShape | None = None
    """Of a worker pool, instead of a queue."""
    pipe: PipeShape | None = None
    """Of a pipe."""

    @property
    def steady(self) -> bool:
        """Whether the call runs through the same lines every time.

        With parties beyond this machine's memory, how often a call looks about differs.
        """
        return not (self.remote or self.ranks or self.joint or self.waits or self.pool or self.pipe)

    @property
    def departs(self) -> bool:
        """Whether a target may have no code for it: what is not needed any more is just dropped."""
        return self.verb in ("close", "leave")

    def surely(self, count: int) -> int:
        """Of so many lines counted, those that every such call comes to.

        Any call may look at a clock, and do a little less another time.
        """
        if self.paced:
            return 0
        return count * 3 // 4 if self.steady else count // 2

    def worth(self, count: int) -> int:
        """Of so many lines counted, those that a sweep may choose: of threads, not the last."""
        return count * 2 // 3 if self.verb == "carry" else count

    def scenario(self, id: str, *steps: AnyStep) -> Scenario:
        """A scenario of these steps, judged by the invariant that the case belongs to."""
        shape = QueueShape(2, self.chunk_bytes, chunks=8, remote=self.remote)
        group = GroupShape(ranks=self.ranks) if self.ranks else None
        judges, told = [id.split("/")[0]], list(steps)
        if self.pool is not None:
            return Scenario(id, judges, told, pool=self.pool)
        if self.pipe is not None:
            return Scenario(id, judges, told, pipe=self.pipe)
        return Scenario(id, judges, told, shape=shape, group=group)

    def plainly(self, id: str, step: AnyStep) -> Scenario:
        """With a step before the call that harms nobody: a count, or a stop that is undone."""
        if self.verb == "carry":  # such a point is declared before there are any carriers
            return self.scenario(
                id, step, *self.lead, *self.during, Wait(within=_GIVEN), *self.rest
            )
        return self.scenario(id, *self.lead, step, *self.during, Wait(within=_GIVEN), *self.rest)


_HERE: list[AnyStep] = [Make(), Attach(), Ready(timeout=4.0), Wait(within=_GIVEN)]
_TO_THE_END: list[AnyStep] = [
    Close(("writer",)),
    Receive(_ALL, timeout=3.0),
    Wait(within=_GIVEN),
]
_MORE: list[AnyStep] = [
    Send([_SMALL], timeout=10.0),
    Wait(("writer",), within=_GIVEN),
    *_TO_THE_END,
]


def _of_queue(
    name: str,
    role: str,
    verb: Verb,
    lead: list[AnyStep],
    during: list[AnyStep],
    rest: list[AnyStep],
    remote: int,
    **more: Any,
) -> Operation:
    rest = _counted([*lead, *during], rest)
    return Operation(name, role, verb, lead, during, rest, remote, **more)


def _counted(before: list[AnyStep], rest: list[AnyStep]) -> list[AnyStep]:
    """The rest, with receives of exactly what is sent and was not taken yet.

    One more would wait for ever where a queue has neither deadlines nor a notice of the end; both
    have cases of their own.
    """
    told = [*before, *rest]
    sent = sum(m.repeat for step in told if isinstance(step, Send) for m in step.messages)
    counted: list[AnyStep] = []
    for step in rest:
        if not isinstance(step, Receive) or step.count != _ALL:
            counted.append(step)
            continue
        for role in ("reader-0", "reader-1") if step.roles == ("readers",) else step.roles:
            count = sent - _taken(before, role)
            counted.append(msgspec.structs.replace(step, count=count, roles=(role,)))
    return counted


def _taken(steps: list[AnyStep], role: str) -> int:
    return sum(step.count for step in steps if isinstance(step, Receive) and role in step.roles)


def _send(name: str, message: Message, remote: int = 0) -> Operation:
    before: list[AnyStep] = [*_HERE, Send([_SMALL], timeout=10.0), Wait(("writer",))]
    now: list[AnyStep] = [Send([message], timeout=10.0)]
    waits = message in (_LARGE, _IN_A_SLOT)  # for descriptors, if it is the first; for readers
    return _of_queue(
        f"send-{name}",
        "writer",
        "send",
        before,
        now,
        _MORE,
        remote,
        waits=waits,
        paced=waits and not remote,
        chunk_bytes=_chunk_for(message),
    )


def _receive(name: str, message: Message, remote: int = 0) -> Operation:
    """Of the reader with the highest rank, which is the remote one if there is one."""
    batch = Send([message, _SMALL], timeout=10.0)
    before: list[AnyStep] = [*_HERE, batch, Wait(("writer",))]
    if remote:
        before.append(Pause(0.05))  # what comes while it waits is received by other lines
    now: list[AnyStep] = [Receive(1, ("reader-1",), timeout=5.0)]
    return _of_queue(
        f"receive-{name}",
        "reader-1",
        "receive",
        before,
        now,
        _MORE,
        remote,
        waits=message in (_LARGE, _IN_A_SLOT),
        chunk_bytes=_chunk_for(message),
    )


def _chunk_for(message: Message) -> int:
    return 4 << 20 if message is _IN_A_SLOT else 64 << 10


def _ready(name: str, role: str, remote: int = 0) -> Operation:
    before: list[AnyStep] = [Make(), Attach(), Wait(within=_GIVEN)]
    now: list[AnyStep] = [Ready(timeout=4.0)]
    return _of_queue(f"ready-{name}", role, "ready", before, now, _MORE, remote, joint=True)


def _closes(name: str, role: str, remote: int = 0) -> Operation:
    unread: list[AnyStep] = [*_HERE, Send([_SMALL, _LARGE, _SMALL], timeout=10.0), Wait()]
    if role == "writer":
        rest: list[AnyStep] = [Receive(_ALL, timeout=3.0), Wait(within=_GIVEN)]
    else:
        # More than there are slots: who has left does not hold the writer up.
        rest = [
            Receive(_ALL, ("reader-0",), timeout=9.0),
            Send([Message(repeat=20)], timeout=5.0),
            Wait(("writer",), within=_GIVEN),
            Close(("writer",)),
            Wait(within=_GIVEN),
        ]
    return _of_queue(f"close-{name}", role, "close", unread, [Close((role,))], rest, remote)


def _begins(name: str, role: str, remote: int = 0) -> Operation:
    """Making the queue, or attaching to it."""
    lead: list[AnyStep] = []
    now: list[AnyStep] = [Make()]
    rest: list[AnyStep] = [Attach()]
    if role != "writer":
        lead = [Make(), Attach(("reader-0",)), Wait(within=_GIVEN)]
        now, rest = [Attach(("reader-1",))], []
    rest = [*rest, Ready(timeout=4.0), Wait(within=_GIVEN), *_MORE]
    verb: Verb = "make" if role == "writer" else "attach"
    return _of_queue(name, role, verb, lead, now, rest, remote)


QUEUE: tuple[Operation, ...] = (
    _begins("make", "writer"),
    _begins("attach", "reader-1"),
    _ready("writer", "writer"),
    _ready("reader", "reader-1"),
    _send("inline", Message()),
    _send("apart", _APART),
    _send("overflow", _LARGE),
    _send("large", _IN_A_SLOT),
    _receive("inline", Message()),
    _receive("apart", _APART),
    _receive("overflow", _LARGE),
    _receive("large", _IN_A_SLOT),
    _closes("writer", "writer"),
    _closes("reader", "reader-1"),
)
"""With two local readers."""

REMOTE: tuple[Operation, ...] = (
    _begins("make-remote", "writer", 1),
    _begins("attach-remote", "reader-1", 1),
    _ready("writer-remote", "writer", 1),
    _ready("remote", "reader-1", 1),
    _send("remote", Message(), 1),
    _send("remote-overflow", _LARGE, 1),
    _receive("remote", _LARGE, 1),
    _closes("writer-remote", "writer", 1),
    _closes("remote", "reader-1", 1),
)
"""With a local and a remote reader."""


_JOINED: list[AnyStep] = [Join(timeout=8.0), Wait(within=20.0)]
_RANKS = ("rank-0", "rank-1", "rank-2")
_TAKEN = 3.0
"""How long a rank waits for what was sent to it long ago."""


def _joins(name: str, role: str) -> Operation:
    """All come at once; nobody comes back before all have come."""
    rest: list[AnyStep] = [
        Gather(timeout=8.0),
        SendTo(role, "rank-2", [_SMALL]),
        ReceiveFrom(("rank-2",), role, 2, timeout=_TAKEN),
        Barrier(timeout=8.0),
        Wait(within=20.0),
    ]
    now: list[AnyStep] = [Join(timeout=8.0)]
    return Operation(name, role, "join", [], now, rest, ranks=len(_RANKS), joint=True)


def _sends(name: str, role: str, message: Message) -> Operation:
    """To the last rank; it takes until it hears that the sender has left."""
    rest: list[AnyStep] = [
        SendTo(role, "rank-2", [_SMALL]),
        Leave((role,)),
        ReceiveFrom(("rank-2",), role, _ENDLESS, timeout=_TAKEN),
        Wait(within=20.0),
    ]
    return _of_group(name, role, "send-to", [], [SendTo(role, "rank-2", [message])], rest)


def _takes(name: str, role: str) -> Operation:
    """From the last rank, which has sent three objects."""
    lead: list[AnyStep] = [SendTo("rank-2", role, [_LARGE, _SMALL]), Wait(within=_GIVEN)]
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
        Broadcast(role, [_SMALL], (role,)),
        Leave((role,)),
        Broadcast(role, [Message(repeat=_ENDLESS)], others, timeout=_TAKEN),
        Wait(within=20.0),
    ]
    return _of_group(name, role, "broadcast", [], [Broadcast(role, [_LARGE], (role,))], rest)


def _hears(name: str, role: str) -> Operation:
    source = "rank-2"
    lead: list[AnyStep] = [Broadcast(source, [_LARGE, _SMALL], (source,)), Wait(within=_GIVEN)]
    other = next(rank for rank in _RANKS if rank not in (role, source))
    rest: list[AnyStep] = [
        Broadcast(source, [_SMALL], (role,), timeout=_TAKEN),
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
    lead: list[AnyStep] = [SendTo(role, "rank-2", [_LARGE, _SMALL]), Wait(within=_GIVEN)]
    rest: list[AnyStep] = [
        ReceiveFrom(("rank-2",), role, _ENDLESS, timeout=_TAKEN),
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


_PIPED: list[AnyStep] = [PipeOpen(), Wait(within=30.0)]
_CARRIED = [Tensor(repeat=2), Tensor("uint8", (300_000,)), Tensor(form="none")]


def _of_pipe(
    name: str,
    role: str,
    verb: Verb,
    now: list[AnyStep],
    rest: list[AnyStep],
    *,
    lead: list[AnyStep] | None = None,
    joint: bool = False,
) -> Operation:
    before = _PIPED if lead is None else lead
    shape = PipeShape(buffer_bytes=200_000)
    return Operation(name, role, verb, before, now, rest, joint=joint, pipe=shape)


def _pipe_both(source: str, taker: str) -> list[AnyStep]:
    """One rank sends, the other takes it: a call of either may be struck."""
    return [PipeReceive((taker,), 4), PipeSend(source, _CARRIED)]


def _pipe_rest(source: str, taker: str) -> list[AnyStep]:
    """The other way round, and the next tensor in the same direction."""
    return [
        PipeReceive((source,), 1),
        PipeSend(taker, [Tensor()]),
        Wait(within=_GIVEN),
        PipeReceive((taker,), 1),
        PipeSend(source, [Tensor()]),
        Wait(within=_GIVEN),
    ]


PIPE: tuple[Operation, ...] = tuple(
    operation
    for role, other in (("pipe-0", "pipe-1"), ("pipe-1", "pipe-0"))
    for operation in (
        _of_pipe(
            f"{role}-opens",
            role,
            "pipe-open",
            [PipeOpen()],
            _pipe_rest(role, other),
            lead=[],
            joint=True,
        ),
        _of_pipe(
            f"{role}-sends", role, "pipe-send", _pipe_both(role, other), _pipe_rest(role, other)
        ),
        _of_pipe(
            f"{role}-receives",
            role,
            "pipe-receive",
            _pipe_both(other, role),
            _pipe_rest(role, other),
        ),
        _of_pipe(
            f"{role}-closes",
            role,
            "pipe-close",
            [PipeClose((role,))],
            [],
            lead=[*_PIPED, *_pipe_both(role, other), Wait(within=_GIVEN)],
        ),
    )
)
"""Of either rank of two."""

CARRIERS: tuple[Operation, ...] = tuple(
    _of_pipe(f"{role}-{what}", role, "carry", now, _pipe_rest(source, taker))
    for role, what, source, taker, now in (
        ("pipe-0", "carries", "pipe-0", "pipe-1", _pipe_both("pipe-0", "pipe-1")),
        ("pipe-1", "takes-in", "pipe-0", "pipe-1", _pipe_both("pipe-0", "pipe-1")),
        ("pipe-1", "carries", "pipe-1", "pipe-0", _pipe_both("pipe-1", "pipe-0")),
    )
)
"""What the target's own threads do for a rank, meanwhile."""
