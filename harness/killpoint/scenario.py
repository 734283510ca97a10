"""A scenario is data: topology, workload, faults in the order they happen, and what must hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import tomli_w

from killpoint.errors import BadUsage
from killpoint.invariants import BY_ID
from killpoint.scenario_errors import Place, explain, line_of
from killpoint.targets.protocol import GroupShape, QueueShape

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
]
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
]
NETWORK_FAULTS: tuple[FaultName, ...] = ("cut", "heal", "delay", "reset", "half-open")
"""What is done to connections, by a relay between a remote party and its peer, or to a link."""
MemoryModel = Literal["sequential", "tso", "relaxed", "view"]
Depth = Literal["line", "opcode"]
"""How fine the points of a sweep are: the target's lines, or the interpreter's instructions."""
StartMethod = Literal["zygote", "fork", "spawn", "forkserver"]
MessageKind = Literal["bytes", "array", "tensor", "nested", "buffers", "undecodable", "unencodable"]

PlaceKind = Literal["lines", "pages", "stores", "calls"]
"""What an operation can be struck at."""

_MANY = 8
"""Readers that a complaint names one by one."""

Times = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 33)]
Seconds = Annotated[float, msgspec.Meta(le=3600)]


class Point(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """A place in a role's execution: the n-th line of an operation, or a named one."""

    op: Verb
    line: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """The how-many-th line of the target's own code that the operation executes."""
    name: Literal["overflow-marker"] | None = None
    """``overflow-marker``: a slot that promises an overflow payload has just been published."""
    page: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Before the first store to the how-many-th page of shared memory that the operation fills."""
    store: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Before (even) or after (odd) the operation's stores to shared words: 2k and 2k + 1 are the
    places around its k-th."""
    syscall: str | None = None
    """A system call's name: its calls by the role's native threads, since the declaration."""
    call: Annotated[int, msgspec.Meta(ge=0, le=60_000)] | None = None
    """As a thread enters its how-many-th such call, which it does not make any more."""
    nth: Annotated[int, msgspec.Meta(ge=0)] = 0
    """In the how-many-th such operation after the fault was declared."""
    depth: Depth = "line"
    """What ``line`` counts, or a count is to count."""

    def kind(self) -> PlaceKind | None:
        """What it is a place among; None: nowhere."""
        if self.page is not None:
            return "pages"
        if self.store is not None:
            return "stores"
        if self.syscall is not None and self.call is not None:
            return "calls"
        return None if self.line is None and self.name is None else "lines"


class Step(msgspec.Struct, tag_field="do", forbid_unknown_fields=True, omit_defaults=True):
    """One thing the director does; steps that name roles post an order and go on."""


class Message(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """One message, or a run of them whose size grows by ``step``."""

    kind: MessageKind = "bytes"
    size: Size = 64
    """Bytes of its body; of each buffer for ``buffers``."""
    buffers: Annotated[int, msgspec.Meta(ge=0, le=200_000)] = 1
    repeat: Times = 1
    step: int = 0


class Make(Step, tag="make"):
    """The writer makes the queue."""


class Attach(Step, tag="attach"):
    """Readers attach by the handle."""

    roles: tuple[str, ...] = ("readers",)
    rank: Annotated[int, msgspec.Meta(ge=-1, le=1 << 31)] | None = None
    """The rank that they claim; None: each its own."""


class Ready(Step, tag="ready"):
    """The collective handshake."""

    roles: tuple[str, ...] = ("all",)
    timeout: Seconds | None = None


class Send(Step, tag="send"):
    """The writer enqueues; unless told otherwise it overwrites each object right afterwards."""

    messages: list[Message]
    role: str = "writer"
    timeout: Seconds | None = None
    mutate: bool = True
    threads: Annotated[int, msgspec.Meta(ge=1, le=16)] = 1
    keep_on: bool = False
    """Go on with the next message after one that could not be sent."""
    burst: bool = False
    """Build every message before the first is sent, so that they leave without a pause."""


class Receive(Step, tag="receive"):
    """Readers dequeue; what they got is held and judged again at the end."""

    count: Times
    roles: tuple[str, ...] = ("readers",)
    timeout: Seconds | None = None
    hold: bool = True
    threads: Annotated[int, msgspec.Meta(ge=1, le=16)] = 1
    keep_on: bool = False
    """Go on after a call that raised (each such call counts towards ``count``)."""


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
    """Attach to a segment that is not there, or not large enough, and look once."""

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
    """Ranks take what another one sent to them; what they got is judged by number and digest."""

    roles: tuple[str, ...]
    source: str
    count: Times = 1
    timeout: Seconds | None = None
    keep_on: bool = False
    """Go on after a call that raised (each such call counts towards ``count``)."""


class Broadcast(Step, tag="broadcast"):
    """The source sends to all; every other of the roles takes it."""

    source: str
    messages: list[Message]
    roles: tuple[str, ...] = ("all",)
    timeout: Seconds | None = None


class Gather(Step, tag="gather"):
    """Each of the roles gives an object and gets everybody's."""

    message: Message = Message()
    roles: tuple[str, ...] = ("all",)
    times: Times = 1
    timeout: Seconds | None = None


class Barrier(Step, tag="barrier"):
    """The roles meet."""

    roles: tuple[str, ...] = ("all",)
    times: Times = 1
    timeout: Seconds | None = None


class Leave(Step, tag="leave"):
    """A clean leave, then the last reference is dropped."""

    roles: tuple[str, ...] = ("all",)


class Again(Step, tag="again"):
    """The role does once more what an exception struck; nothing if its call came back all right."""

    role: str


class Look(Step, tag="look"):
    """Record what the roles show to others: listeners, socket paths, segments, their rights."""

    roles: tuple[str, ...] = ("all",)


class Weigh(Step, tag="weigh"):
    """Record the memory that the roles use now."""

    roles: tuple[str, ...] = ("all",)


class Intrude(Step, tag="intrude"):
    """A stranger without a key connects to whatever TCP port the role listens at."""

    role: str
    how: Literal["listen", "speak"]
    """``listen`` tries to get messages, ``speak`` to have one decoded."""


class Recheck(Step, tag="recheck"):
    """Roles compare everything they hold with what it was on arrival."""

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
    """A second thread of the role cancels what its first one waits in."""

    roles: tuple[str, ...]


class Settle(Step, tag="settle"):
    """Go on once these roles are seen waiting inside their operation."""

    roles: tuple[str, ...]
    within: Seconds = 5.0


class Pause(Step, tag="pause"):
    """Let the parties idle for a time: part of the workload, never a wait for something."""

    seconds: Seconds


class Wait(Step, tag="wait"):
    """Go on once these roles have done all they were told; a hang if they do not in time."""

    roles: tuple[str, ...] = ("all",)
    within: Seconds = 10.0


class Count(Step, tag="count"):
    """Count the lines of the target's code that an operation executes (declare it before)."""

    role: str
    at: Point
    of: PlaceKind = "lines"
    """Or other places in it."""


class Fault(Step, tag="fault"):
    """A fault, at once, or when the role reaches a point (declare it before that operation)."""

    fault: FaultName
    role: str
    at: Point | None = None
    pause: Seconds = 0.0
    """For ``slow``: seconds between two sends or receives; for ``delay``: seconds on the way."""
    hours: Annotated[float, msgspec.Meta(ge=-100, le=100)] = 0.0
    """For ``jump-clock``: how far the role's wall clock jumps, back if negative."""
    toward: Literal["both", "role", "peer"] = "both"
    """For ``cut``, ``delay`` and ``half-open``: which direction of the role's connections, seen
    from the relay that they pass through."""
    spare: Annotated[int, msgspec.Meta(ge=0, le=4096)] = 0
    """For ``starve``: how many descriptors the role may still open."""


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
    | Leave
    | Again
    | Look
    | Weigh
    | Intrude
    | Recheck
    | Close
    | Drop
    | Exit
    | Cancel
    | Settle
    | Pause
    | Wait
    | Count
    | Fault
)


class Simulated(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """The simulated tier, instead of processes: what the writer sends, each reader receives."""

    memory: MemoryModel = "sequential"
    first: Literal["writer", "readers"] = "writer"
    """Which tasks come first where nothing else decides."""
    late: bool = False
    """Whether what is on its way between two sockets may take longer than the writer's pauses."""
    schedule: list[Annotated[int, msgspec.Meta(ge=0)]] | None = None
    """The choices of the one schedule to play; None: the search is the case's."""


class Scenario(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is played, and which invariants judge it."""

    case: str
    judges: list[str]
    steps: list[AnyStep]
    title: str = ""
    target: str = ""
    """The target it was found on: what a replay plays it on unless told otherwise."""
    shape: QueueShape = QueueShape()
    group: GroupShape | None = None
    """A process group instead of a queue: the roles are its ranks, ``rank-0`` the host."""
    umask: Annotated[int, msgspec.Meta(ge=0, le=0o777)] | None = None
    """The roles' umask."""
    shm_bytes: Annotated[int, msgspec.Meta(ge=4096, le=1 << 30)] | None = None
    """A /dev/shm of this size, the play's own (needs the right to mount)."""
    namespaces: bool = False
    """Each remote reader, or each rank, lives in a network namespace of its own, as if on another
    machine: a ``cut`` is a link that goes down (needs the right to make them; a machine without it
    leaves the case unsupported)."""
    start: StartMethod = "zygote"
    seed: int = 0
    observe: bool = False
    """Record every store to the slots' flags, in one order over all roles."""
    restart: bool = False
    """After the steps, a second set of roles makes, uses and closes a new queue (L1)."""
    device: Literal["cpu", "cuda"] = "cpu"
    simulated: Simulated | None = None

    def readers(self) -> list[str]:
        """The names of its readers."""
        return [f"reader-{rank}" for rank in range(self.shape.readers)]

    def remote(self) -> list[str]:
        """The names of the readers that are reached over TCP."""
        return self.readers()[self.shape.readers - self.shape.remote :]

    def connecting(self) -> list[str]:
        """The roles that reach the first one over TCP: remote readers, or a group's members."""
        return self.remote() if self.group is None else self.roles()[1:]

    def at_stores(self) -> bool:
        """Whether a fault is placed at a store, or stores are counted."""
        return any(
            (isinstance(step, Count) and step.of == "stores")
            or (isinstance(step, Fault) and step.at is not None and step.at.kind() == "stores")
            for step in self.steps
        )

    def networked(self) -> bool:
        """Whether a fault is done to connections, so that they must lead through a relay."""
        harmed = any(isinstance(s, Fault) and s.fault in NETWORK_FAULTS for s in self.steps)
        return harmed and not self.namespaces

    def roles(self) -> list[str]:
        """The names of its roles, the writer or rank 0 first."""
        if self.group is not None:
            return [f"rank-{rank}" for rank in range(self.group.ranks)]
        return ["writer", *self.readers()]

    def named(self, roles: tuple[str, ...]) -> list[str]:
        """Role names with ``readers`` and ``all`` spelled out."""
        out: list[str] = []
        for role in roles:
            out += {"all": self.roles(), "readers": self.readers()}.get(role, [role])
        return out


def dump(scenario: Scenario) -> str:
    """The scenario as TOML text that :func:`parse` takes back."""
    return tomli_w.dumps(msgspec.to_builtins(scenario))


def load(path: Path) -> Scenario:
    """The scenario in a file.

    Raises:
        BadUsage: the file cannot be read or is not a scenario: file, line, what, expected.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"{path}: cannot be read: {error}; expected a scenario file") from error
    return parse(text, str(path))


def parse(text: str, name: str) -> Scenario:
    """The scenario in a text; ``name`` stands for it in errors."""
    try:
        scenario = msgspec.toml.decode(text, type=Scenario)
    except msgspec.ValidationError as error:
        line, what = explain(text, str(error), Scenario)
        raise BadUsage(f"{name}:{line}: {what}") from error
    except msgspec.DecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        line = int(at.group(1)) if at else max(1, text.count("\n"))
        raise BadUsage(f"{name}:{line}: {error}; expected a scenario in TOML") from error
    for place, what in _unplayable(scenario):
        raise BadUsage(f"{name}:{line_of(text, place)}: {what}")
    return scenario


def parse_shape(data: bytes) -> QueueShape:
    """A queue's shape from the bytes of :func:`dump_shape`."""
    return msgspec.json.decode(data, type=QueueShape)


def dump_shape(shape: QueueShape) -> bytes:
    """A queue's shape as bytes."""
    return msgspec.json.encode(shape)


def _unplayable(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """What is well formed, and nothing that could be played or judged: where, and what."""
    known = f"expected one of: {', '.join(BY_ID)}"
    if not scenario.judges:
        yield ["judges"], f"no invariant judges it; {known}"
    for id in scenario.judges:
        if id not in BY_ID:
            yield ["judges"], f"no invariant {id!r}; {known}"
    if scenario.namespaces:
        yield from _no_hosts(scenario)
    if scenario.simulated is not None:
        yield from _not_simulated(scenario)
    if scenario.shape.remote > scenario.shape.readers:
        what = f"{scenario.shape.remote} remote readers of {scenario.shape.readers}"
        yield ["shape", "remote"], f"{what}; expected at most as many as there are readers"
    for index, step in enumerate(scenario.steps):
        for place, what in (
            *_bad_roles(scenario, step),
            *_bad_point(step),
            *_bad_wire(scenario, step),
        ):
            yield ["steps", index, *place], what


_SIMULATED_STEPS = "not simulated; expected make, attach, ready, pause, send, receive, wait"


def _not_simulated(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """What a simulated world does not have."""
    for index, step in enumerate(scenario.steps):
        if not isinstance(step, Make | Attach | Ready | Pause | Send | Receive | Wait):
            yield ["steps", index], _SIMULATED_STEPS
    if scenario.shape.remote:
        yield ["shape", "remote"], "remote readers are not simulated; expected none"


_LINK_FAULTS = ("cut", "heal")


def _no_hosts(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """What cannot be played with a network namespace for each remote reader."""
    if not scenario.connecting():
        yield ["namespaces"], "namespaces without remote readers; expected `shape.remote` above 0"
    if scenario.shm_bytes is not None:
        yield ["shm_bytes"], "a /dev/shm beside namespaces; expected one of the two"
    given = scenario.group or scenario.shape
    if given.host != QueueShape().host:
        place = "group" if scenario.group else "shape"
        yield [place, "host"], "a host beside namespaces, which have their own; expected none"
    for index, step in enumerate(scenario.steps):
        if isinstance(step, Intrude):
            yield ["steps", index], "an intruder cannot enter namespaces; expected none"
        elif isinstance(step, Fault) and step.fault in {*NETWORK_FAULTS} - {*_LINK_FAULTS}:
            what = f"{step.fault} of a link; expected one of: {', '.join(_LINK_FAULTS)}"
            yield ["steps", index, "fault"], what


def _bad_roles(scenario: Scenario, step: AnyStep) -> Iterator[tuple[Place, str]]:
    single = scenario.roles()
    every = {"all", *single} if scenario.group else {"all", "readers", *single}
    for role in getattr(step, "roles", ()):
        if role not in every:
            expected = ", ".join(_few(sorted(every)))
            yield ["roles"], f"no role {role!r}; expected one of: {expected}"
    for field in ("role", "to", "source"):
        role = getattr(step, field, single[0])
        if role not in single:
            what = (
                f"{role!r} is not one role" if role in ("all", "readers") else f"no role {role!r}"
            )
            yield [field], f"{what}; expected one of: {', '.join(_few(sorted(single)))}"


def _bad_wire(scenario: Scenario, step: AnyStep) -> Iterator[tuple[Place, str]]:
    """A fault of connections where there are none."""
    if not isinstance(step, Fault) or step.fault not in NETWORK_FAULTS:
        return
    if scenario.group is not None:
        members = scenario.connecting()
        if step.role == scenario.roles()[0] and not scenario.namespaces:
            what = f"{step.fault} of {step.role!r}, which listens and connects to nobody"
            expected = ", ".join(_few(members)) or "a group of more than one rank"
            yield ["role"], f"{what}; expected a member that connects to it: {expected}"
    elif step.role in scenario.roles():
        remote = scenario.remote()
        if not remote or step.role not in ("writer", *remote):
            expected = ", ".join(_few(["writer", *remote])) if remote else "remote readers"
            what = f"{step.fault} of {step.role!r}, which has no TCP connection"
            yield ["role"], f"{what}; expected {'one of: ' if remote else ''}{expected}"


def _few(roles: list[str]) -> list[str]:
    """Role names for a complaint: of very many numbered ones, the first and the last."""
    numbered = [role for role in roles if role[-1].isdigit()]
    if len(numbered) <= _MANY:
        return roles
    span = min(numbered, key=len), max(numbered, key=lambda role: int(role.split("-")[1]))
    return sorted({*roles} - {*numbered} | {f"{span[0]} to {span[1]}"})


_AT_PAGES = ("kill", "stop")
"""What can be done to a process that is inside one instruction."""


def _bad_point(step: AnyStep) -> Iterator[tuple[Place, str]]:
    if isinstance(step, Count):
        if step.of == "calls" and step.at.syscall is None:
            yield ["at"], "a count of calls without their name; expected `syscall` in it"
        if step.at.kind() is not None:
            where = "line" if step.at.line is not None else step.at.kind() or ""
            yield ["at", where], "a count names no line; expected `op` and `nth` alone"
    elif isinstance(step, Fault):
        if step.at is None and step.fault == "raise":
            yield ["fault"], "a raise without a point; expected `at`"
        if step.at is not None and step.at.kind() is None:
            yield ["at"], "a point that is nowhere; expected `line` or `name` in it"
        elif step.at is not None and step.at.page is not None and step.fault not in _AT_PAGES:
            what = f"{step.fault} at a page; expected one of: {', '.join(_AT_PAGES)}"
            yield ["fault"], what
        elif step.at is not None and step.at.kind() == "calls" and step.fault != "kill":
            yield ["fault"], f"{step.fault} at a native system call; expected: kill"
