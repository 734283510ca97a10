"""Steps of a scenario, and the points at which a fault is placed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from killpoint import extensions
from killpoint.systems.coordinator.steps import CoordinatorStep
from killpoint.systems.engine.steps import EngineStep
from killpoint.systems.pipe.steps import CarrierVerb, PipeStep, PipeVerb
from killpoint.systems.pool.steps import (
    ExecutorPhase,
    PoolStep,
    PoolVerb,
    WorkerPhase,
    WorkerVerb,
)
from killpoint.systems.server.steps import ServerStep
from killpoint.systems.step import Pace, Seconds, Size, Step, Times

Verb = Literal[
    "make",
    "attach",
    "ready",
    "send",
    "receive",
    "close",
    "join",
    "send-to",
    "receive-from",
    "broadcast",
    "gather",
    "barrier",
    "leave",
    "work",
    PoolVerb,
    WorkerVerb,
    PipeVerb,
    CarrierVerb,
]
"""Operation of a role. ``work``: of a worker, or its executor, in the course of a call; its points
have names."""
FaultName = Literal[
    "kill",
    "stop",
    "continue",
    "exit",
    "raise",
    "interrupt",
    "slow",
    "cut",
    "heal",
    "delay",
    "reset",
    "half-open",
    "starve",
    "jump-clock",
    "fill-shm",
    "fill-tmp",
    "hold",
    "sigterm",
    "sigint",
]
if not TYPE_CHECKING:  # those of packages outside the tree
    FaultName = Literal[(*FaultName.__args__, *sorted(extensions.entries("faults")))]
NETWORK_FAULTS: tuple[FaultName, ...] = ("cut", "heal", "delay", "reset", "half-open")
"""Faults of connections, applied by a relay between a remote party and its peer, or to a link."""
MemoryModel = Literal["sequential", "tso", "relaxed", "view"]
Depth = Literal["line", "opcode"]
"""Granularity of a sweep's points: lines of the target, or instructions of the interpreter."""
StartMethod = Literal["zygote", "fork", "spawn", "forkserver"]
MessageKind = Literal[
    "bytes",
    "array",
    "arrays",
    "tensor",
    "nested",
    "buffers",
    "shapes",
    "undecodable",
    "unencodable",
]

PlaceKind = Literal["lines", "pages", "stores", "calls", "times"]
"""Kinds of points within an operation."""


class Point(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """A place in a role's execution: the n-th line of an operation, or a named one."""

    op: Verb
    line: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Index, from 0, of the line of the target's own code among those that the operation runs."""
    name: Literal["overflow-marker", WorkerPhase, ExecutorPhase] | None = None
    """``overflow-marker``: a slot that promises an overflow payload has just been published. Any
    other name is a phase of a pool's ``work``."""
    page: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Index of a page of shared memory that the operation fills: before the first store to it."""
    store: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Before (even) or after (odd) the operation's stores to shared words: 2k and 2k + 1 are the
    places around its k-th."""
    syscall: str | None = None
    """Name of a system call, counted over the role's native threads since the declaration."""
    call: Annotated[int, msgspec.Meta(ge=0, le=60_000)] | None = None
    """Index of such a call of one thread, which dies as it enters it and does not make it."""
    after: Annotated[float, msgspec.Meta(ge=0, le=3600)] | None = None
    """Seconds after the operation has begun, wherever it is then; in the first one, from the
    ``nth`` on, that lasts so long."""
    spread: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None = None
    """Number of plays, each struck ``after`` another time: the times are spread over the durations
    of the operation, which are measured before."""
    nth: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Index of the operation among those of its kind after the fault was declared."""
    depth: Depth = "line"
    """Unit that ``line``, or a count, counts."""

    def kind(self) -> PlaceKind | None:
        """Return the kind of the point; None: it is nowhere."""
        if self.page is not None:
            return "pages"
        if self.store is not None:
            return "stores"
        if self.syscall is not None and self.call is not None:
            return "calls"
        if self.after is not None or self.spread is not None:
            return "times"
        return None if self.line is None and self.name is None else "lines"

    def __str__(self) -> str:
        """Return the text for reports, such as ``line 53 of send``."""
        numbered = {
            self.depth: self.line,
            "page": self.page,
            "store": self.store,
            f"{self.syscall} call": self.call,
        }
        which = [f"{what} {number}" for what, number in numbered.items() if number is not None]
        which += [self.name] if self.name else []
        which += [f"{self.after * 1e6:.0f} µs"] if self.after is not None else []
        which += [f"{self.spread} random times"] if self.spread is not None else []
        which += [f"{self.op} {self.nth}" if self.nth else self.op]
        return " of ".join(which)


class Message(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """One message, or a run of them whose size grows by ``step``."""

    kind: MessageKind = "bytes"
    size: Size = 64
    """Bytes of the body; of each buffer for ``buffers``; of the first array for ``arrays`` and
    ``shapes``."""
    buffers: Annotated[int, msgspec.Meta(ge=0, le=200_000)] = 1
    repeat: Times = 1
    step: int = 0


class Make(Step, tag="make"):
    """The writer makes the queue."""


class Attach(Step, tag="attach"):
    """Readers attach by the handle."""

    roles: tuple[str, ...] = ("readers",)
    rank: Annotated[int, msgspec.Meta(ge=-1, le=1 << 31)] | None = None
    """Rank that the readers claim; None: each its own."""


class Ready(Step, tag="ready"):
    """The collective handshake."""

    roles: tuple[str, ...] = ("all",)
    timeout: Seconds | None = None


class Send(Step, tag="send"):
    """The writer enqueues; by default it overwrites each object right afterwards."""

    messages: list[Message]
    role: str = "writer"
    timeout: Seconds | None = None
    mutate: bool = True
    threads: Annotated[int, msgspec.Meta(ge=1, le=16)] = 1
    keep_on: bool = False
    """Go on with the next message after one that could not be sent."""
    burst: bool = False
    """Build every message before the first is sent, so that they leave without a pause."""
    pace: Pace | None = None
    """Messages a second of a steady stream: a few objects again and again, with only their count
    recorded."""


class Receive(Step, tag="receive"):
    """Readers dequeue; received messages are held and judged again at the end."""

    count: Times
    roles: tuple[str, ...] = ("readers",)
    timeout: Seconds | None = None
    hold: bool = True
    threads: Annotated[int, msgspec.Meta(ge=1, le=16)] = 1
    keep_on: bool = False
    """Go on after a call that raised (each such call counts towards ``count``)."""
    pace: Pace | None = None
    """Messages a second of a steady stream: none is held or judged, and only their count is
    recorded."""


class RingWrite(Step, tag="ring-write"):
    """Fill one slot at the level of the ring; ``fails`` raises inside the fill."""

    size: Size = 64
    role: str = "writer"
    timeout: Seconds | None = None
    fails: bool = False


class RingRead(Step, tag="ring-read"):
    """Read one slot at the level of the ring; ``fails`` raises inside the read."""

    roles: tuple[str, ...] = ("readers",)
    timeout: Seconds | None = None
    fails: bool = False


class RingAttach(Step, tag="ring-attach"):
    """Attach once to a segment that is missing, or too small."""

    how: Literal["missing", "small"]
    role: str = "reader-0"


class ForkCopy(Step, tag="fork-copy"):
    """The role forks; the child drops its copy of the end and exits, the parent goes on."""

    role: str = "writer"


class Join(Step, tag="join"):
    """Ranks become members of the group; each returns once all are there."""

    roles: tuple[str, ...] = ("all",)
    timeout: Seconds | None = None


class SendTo(Step, tag="send-to"):
    """One rank sends to another."""

    role: str
    to: str
    messages: list[Message]


class ReceiveFrom(Step, tag="receive-from"):
    """Ranks receive from another; the objects are judged by number and digest."""

    roles: tuple[str, ...]
    source: str
    count: Times = 1
    timeout: Seconds | None = None
    keep_on: bool = False
    """Go on after a call that raised (each such call counts towards ``count``)."""
    beside: bool = False
    """Receive in a second thread; the step is done once that thread waits inside its first call."""


class Broadcast(Step, tag="broadcast"):
    """The source sends to all; every other of the roles receives it."""

    source: str
    messages: list[Message]
    roles: tuple[str, ...] = ("all",)
    timeout: Seconds | None = None
    beside: bool = False
    """Receive in a second thread, as for :class:`ReceiveFrom`. The source sends in its first."""


class Gather(Step, tag="gather"):
    """Each of the roles contributes an object and gets those of all."""

    message: Message = Message()
    roles: tuple[str, ...] = ("all",)
    times: Times = 1
    timeout: Seconds | None = None
    beside: bool = False
    """Meet in a second thread, as for :class:`ReceiveFrom`."""


class Barrier(Step, tag="barrier"):
    """The roles meet at a barrier."""

    roles: tuple[str, ...] = ("all",)
    times: Times = 1
    timeout: Seconds | None = None
    beside: bool = False
    """Meet in a second thread, as for :class:`ReceiveFrom`."""


class GroupRejoin(Step, tag="group-rejoin"):
    """Ranks wait for their second threads."""

    roles: tuple[str, ...] = ("all",)


class Leave(Step, tag="leave"):
    """A clean leave, then the last reference is dropped."""

    roles: tuple[str, ...] = ("all",)


class Retry(Step, tag="retry"):
    """The role repeats the operation that an exception struck, unless its call had succeeded."""

    role: str


class ProbeExposure(Step, tag="probe-exposure"):
    """Record what the roles expose to others: listeners, socket paths, segments, access rights."""

    roles: tuple[str, ...] = ("all",)


class MeasureMemory(Step, tag="measure-memory"):
    """Record the memory that the roles use now."""

    roles: tuple[str, ...] = ("all",)


class Attack(Step, tag="attack"):
    """An attacker without a key connects to any TCP port that the role listens at."""

    role: str
    how: Literal["listen", "speak", "lurk", "flood"]
    """Conduct of the attacker. ``listen`` tries to get messages, ``speak`` to have one decoded;
    ``lurk`` waits for ports to appear, and speaks as a library's peer would; ``flood`` holds many
    connections, idle, half-open or full of garbage, and declares data that it never sends, at
    processes of 1,024 descriptors."""


class VerifyHeld(Step, tag="verify-held"):
    """Roles compare each message that they hold with its digest on arrival."""

    roles: tuple[str, ...] = ("readers",)


class Close(Step, tag="close"):
    """A clean close, then the last reference is dropped."""

    roles: tuple[str, ...] = ("all",)


class Drop(Step, tag="drop"):
    """The last reference is dropped without a close, out of a reference cycle if asked."""

    roles: tuple[str, ...]
    cycle: bool = False


class Exit(Step, tag="exit"):
    """The interpreter ends normally.

    ``brief`` leaves at once: a role that has closed its end is only in the way, and tearing down
    an interpreter's modules takes longer than everything else in a play.
    """

    roles: tuple[str, ...]
    brief: bool = False


class Cancel(Step, tag="cancel"):
    """A second thread of the role cancels the operation that its first one waits in."""

    roles: tuple[str, ...]


class WaitBlocked(Step, tag="wait-blocked"):
    """Go on once these roles are seen waiting inside their operation."""

    roles: tuple[str, ...]
    within: Seconds = 5.0


class Pause(Step, tag="pause"):
    """Let the parties idle for a time: part of the workload, never a wait for an event."""

    seconds: Seconds


class Wait(Step, tag="wait"):
    """Go on once these roles have done all their orders; a hang if they do not in time."""

    roles: tuple[str, ...] = ("all",)
    within: Seconds = 10.0


class Count(Step, tag="count"):
    """Count the lines of the target's code that an operation executes (declare it before)."""

    role: str
    at: Point
    of: PlaceKind = "lines"
    """Kind of the points to count instead of lines."""


class Fault(Step, tag="fault"):
    """A fault, at once, or when the role reaches a point (declare it before that operation)."""

    fault: FaultName
    role: str
    at: Point | None = None
    pause: Seconds = 0.0
    """For ``slow``: seconds between two sends or receives; for ``delay``: seconds on the way."""
    hours: Annotated[float, msgspec.Meta(ge=-100, le=100)] = 0.0
    """For ``jump-clock``: hours by which the role's wall clock jumps, back if negative."""
    toward: Literal["both", "role", "peer"] = "both"
    """For ``cut``, ``delay`` and ``half-open``: the direction of the role's connections, seen from
    the relay that they pass through."""
    after: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] | None = None
    """For ``cut``, ``half-open`` and ``reset``: number of further bytes that must have passed
    ``toward`` there through the relay before the fault; None: at once."""
    spare: Annotated[int, msgspec.Meta(ge=0, le=4096)] = 0
    """For ``starve``: number of descriptors that the role may still open."""


AnyStep = (
    Make
    | Attach
    | Ready
    | Send
    | Receive
    | RingWrite
    | RingRead
    | RingAttach
    | ForkCopy
    | Join
    | SendTo
    | ReceiveFrom
    | Broadcast
    | Gather
    | Barrier
    | GroupRejoin
    | Leave
    | Retry
    | ProbeExposure
    | MeasureMemory
    | Attack
    | VerifyHeld
    | Close
    | Drop
    | Exit
    | Cancel
    | WaitBlocked
    | Pause
    | Wait
    | Count
    | Fault
    | PoolStep
    | PipeStep
    | CoordinatorStep
    | EngineStep
    | ServerStep
)

if not TYPE_CHECKING:  # those of packages outside the tree
    for _name in sorted(extensions.entries("systems")):
        for _step in extensions.part(_name, "steps").STEPS:
            AnyStep |= _step
