"""Every operation of every system, in every role: how to play it, so that sweeps can strike it.

A system gets its sweeps by naming its operations here: what leads to one, the steps during which
the role makes the call, and what shows afterwards that nothing was lost.
"""

from __future__ import annotations

import msgspec

from killpoint.scenario import (
    AnyStep,
    Attach,
    Close,
    Make,
    Message,
    Pause,
    Ready,
    Receive,
    Scenario,
    Send,
    Verb,
    Wait,
)
from killpoint.targets.protocol import GroupShape, QueueShape

_ENDLESS = 60
"""More receives than there are messages: each reader goes on until it is told to stop."""
_LARGE, _APART = Message("array", 100_000), Message("nested", 9000)
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

    @property
    def steady(self) -> bool:
        """Whether the call runs through the same lines every time.

        With parties beyond this machine's memory, how often a call looks about differs.
        """
        return not self.remote and not self.ranks and not self.joint

    def surely(self, count: int) -> int:
        """Of so many lines counted, those that every such call comes to."""
        return count if self.steady else count - count // 4

    def scenario(self, id: str, *steps: AnyStep) -> Scenario:
        """A scenario of these steps, judged by the invariant that the case belongs to."""
        shape = QueueShape(readers=2, chunks=8, remote=self.remote)
        group = GroupShape(ranks=self.ranks) if self.ranks else None
        return Scenario(id, [id.split("/")[0]], list(steps), shape=shape, group=group)

    def plainly(self, id: str, step: AnyStep) -> Scenario:
        """With a step before the call that harms nobody: a count, or a stop that is undone."""
        return self.scenario(id, *self.lead, step, *self.during, Wait(within=_GIVEN), *self.rest)


_HERE: list[AnyStep] = [Make(), Attach(), Ready(timeout=4.0), Wait(within=_GIVEN)]
_TO_THE_END: list[AnyStep] = [
    Close(("writer",)),
    Receive(_ENDLESS, timeout=3.0),
    Wait(within=_GIVEN),
]
_MORE: list[AnyStep] = [
    Send([_SMALL], timeout=10.0),
    Wait(("writer",), within=_GIVEN),
    *_TO_THE_END,
]


def _send(name: str, message: Message, remote: int = 0) -> Operation:
    before: list[AnyStep] = [*_HERE, Send([_SMALL], timeout=10.0), Wait(("writer",))]
    now: list[AnyStep] = [Send([message], timeout=10.0)]
    return Operation(f"send-{name}", "writer", "send", before, now, _MORE, remote)


def _receive(name: str, message: Message, remote: int = 0) -> Operation:
    """Of the reader with the highest rank, which is the remote one if there is one."""
    batch = Send([message, _SMALL], timeout=10.0)
    before: list[AnyStep] = [*_HERE, batch, Wait(("writer",))]
    if remote:
        before.append(Pause(0.05))  # what comes while it waits is received by other lines
    now: list[AnyStep] = [Receive(1, ("reader-1",), timeout=5.0)]
    return Operation(f"receive-{name}", "reader-1", "receive", before, now, _MORE, remote)


def _ready(name: str, role: str, remote: int = 0) -> Operation:
    before: list[AnyStep] = [Make(), Attach(), Wait(within=_GIVEN)]
    now: list[AnyStep] = [Ready(timeout=4.0)]
    return Operation(f"ready-{name}", role, "ready", before, now, _MORE, remote, joint=True)


def _closes(name: str, role: str, remote: int = 0) -> Operation:
    unread: list[AnyStep] = [*_HERE, Send([_SMALL, _LARGE, _SMALL], timeout=10.0), Wait()]
    if role == "writer":
        rest: list[AnyStep] = [Receive(_ENDLESS, timeout=3.0), Wait(within=_GIVEN)]
    else:
        # More than there are slots: who has left does not hold the writer up.
        rest = [
            Receive(_ENDLESS, ("reader-0",), timeout=9.0),
            Send([Message(repeat=20)], timeout=5.0),
            Wait(("writer",), within=_GIVEN),
            Close(("writer",)),
            Wait(within=_GIVEN),
        ]
    return Operation(f"close-{name}", role, "close", unread, [Close((role,))], rest, remote)


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
    return Operation(name, role, verb, lead, now, rest, remote)


QUEUE: tuple[Operation, ...] = (
    _begins("make", "writer"),
    _begins("attach", "reader-1"),
    _ready("writer", "writer"),
    _ready("reader", "reader-1"),
    _send("inline", Message()),
    _send("apart", _APART),
    _send("overflow", _LARGE),
    _receive("inline", Message()),
    _receive("apart", _APART),
    _receive("overflow", _LARGE),
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
