"""A scenario is data: topology, workload, faults in the order they happen, and what must hold."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from killpoint import extensions
from killpoint.scenario.steps import (
    NETWORK_FAULTS,
    AnyStep,
    Count,
    Fault,
    MemoryModel,
    Pause,
    Receive,
    Send,
    StartMethod,
)
from killpoint.systems.coordinator.orders import Orders
from killpoint.systems.coordinator.steps import Flood
from killpoint.systems.coordinator.unanswered_starts import Wakes
from killpoint.systems.engine.steps import ContinueLoad
from killpoint.systems.pool.kill_matrix import Ending
from killpoint.systems.server.steps import ServerContinueLoad, ServerShape
from killpoint.targets.coordinator_protocol import CoordinatorShape
from killpoint.targets.engine_protocol import EngineShape
from killpoint.targets.shapes import GroupShape, PipeShape, PoolShape, QueueShape, Shape

if TYPE_CHECKING:
    Extension = Shape
else:  # one tagged union of what packages outside the tree add
    Extension = NoneType
    for _name in sorted(extensions.entries("systems")):
        Extension |= extensions.part(_name, "steps").SHAPE


class Simulated(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """The simulated tier, instead of processes: the writer sends, and each reader receives."""

    memory: MemoryModel = "sequential"
    first: Literal["writer", "readers"] = "writer"
    """Tasks that come first where nothing else decides."""
    late: bool = False
    """True if data in transit between two sockets may take longer than the writer's pauses."""
    schedule: list[Annotated[int, msgspec.Meta(ge=0)]] | None = None
    """Choices of the one schedule to play; None: the case searches schedules."""


class Scenario(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Scenario to play, and the ids of the invariants that judge it."""

    case: str
    judges: list[str]
    steps: list[AnyStep]
    title: str = ""
    target: str = ""
    """Target that it was found on, where a replay plays it unless another is given."""
    shape: QueueShape = QueueShape()
    group: GroupShape | None = None
    """A process group instead of a queue: the roles are its ranks, ``rank-0`` the host."""
    pool: PoolShape | None = None
    """A worker pool instead of a queue: the roles are ``executor`` and its workers, ``worker-0``
    and so on, which the target itself starts."""
    pipe: PipeShape | None = None
    """A pipe instead of a queue: the roles are its ranks, ``pipe-0`` and so on."""
    coordinator: CoordinatorShape | None = None
    """A data-parallel coordinator instead of a queue: the roles are ``parent``, which starts it,
    ``coordinator`` itself, which takes no orders, ``engine-0`` and so on (the spares last), and
    ``front-end-0`` and so on."""
    engine: EngineShape | None = None
    """A whole engine instead of a queue: the roles are ``front-end``, which holds it, and its parts
    (``core-0``, ``core-0/worker-0`` and so on), which the target itself starts."""
    server: ServerShape | None = None
    """A whole server instead of a queue: the roles are its ``front``, the process that is started,
    and its parts (``core-0``, ``worker-0`` and so on), known by their titles."""
    extension: Extension | None = None
    """Of a system outside the tree: its name, as ``system``, and its shape."""
    expects: Ending | None = None
    """Outcome that a fault of the pool must have (the kill matrix); None: that of its invariant."""
    terminal: bool = False
    """True if the executor is a whole program: the foreground job of a shell at a terminal of its
    own. A KeyboardInterrupt has it stop its pool, and end."""
    umask: Annotated[int, msgspec.Meta(ge=0, le=0o777)] | None = None
    """The roles' umask."""
    shm_bytes: Annotated[int, msgspec.Meta(ge=4096, le=1 << 30)] | None = None
    """A /dev/shm of this size, the play's own (needs the right to mount)."""
    namespaces: bool = False
    """Each remote reader, rank, engine or front end lives in a network namespace of its own, as if
    on another machine: a ``cut`` is a link that goes down (needs the right to make them; a machine
    without it leaves the case unsupported)."""
    start: StartMethod = "zygote"
    seed: int = 0
    plays: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    """Most plays of a replay, which ends at a violation: the order of its threads' actions
    differs."""
    observe: bool = False
    """Record every store to the slots' flags, in one order over all roles."""
    restart: bool = False
    """After the steps, a second set of roles makes, uses and closes a new queue (L1)."""
    device: Literal["cpu", "cuda"] = "cpu"
    simulated: Simulated | None = None
    orders: Orders | None = None
    """The model tier, instead of processes: the wave protocol, without steps."""
    wakes: Wakes | None = None
    """A coordinator alone, in simulated time, without steps."""

    def subject(self) -> Shape:
        """Return the shape of what is put on trial."""
        parts = self.server, self.coordinator, self.engine, self.pool, self.group, self.pipe
        others = *parts, self.extension
        return next((shape for shape in others if shape is not None), self.shape)

    def system(self) -> str:
        """Return the name of the system that it is a scenario of."""
        return self.subject().system

    def readers(self) -> list[str]:
        """The names of its readers."""
        return self.shape.collective()["readers"]

    def remote(self) -> list[str]:
        """The names of the readers that are reached over TCP."""
        return self.shape.connecting()

    def connecting(self) -> list[str]:
        """The roles that reach the first one over TCP: remote readers, other ranks, or peers."""
        return self.subject().connecting()

    def at_host(self, address: str) -> Scenario:
        """Return the scenario with its first role at this address, if its shape has one."""
        subject = self.subject()
        if not isinstance(subject, QueueShape | GroupShape | CoordinatorShape):
            return self
        place = "shape" if subject is self.shape else subject.system
        moved = msgspec.structs.replace(subject, host=address)
        return msgspec.structs.replace(self, **{place: moved})

    def at_stores(self) -> bool:
        """Return whether a fault is placed at a store, or stores are counted."""
        return any(
            (isinstance(step, Count) and step.of == "stores")
            or (isinstance(step, Fault) and step.at is not None and step.at.kind() == "stores")
            for step in self.steps
        )

    def prescribed(self) -> float:
        """Return the seconds that the steps themselves take: pauses, loads, paced messages."""
        return sum(_prescribed(step) for step in self.steps)

    def networked(self) -> bool:
        """Return whether a fault harms connections, so that they must lead through a relay."""
        harmed = any(isinstance(s, Fault) and s.fault in NETWORK_FAULTS for s in self.steps)
        return harmed and not self.namespaces

    def workers(self) -> list[str]:
        """The names of its pool's workers: they come by themselves."""
        return self.subject().collective().get("workers", [])

    def parts(self) -> list[str]:
        """Return the names of the engine's processes, which the target starts."""
        return self.engine.parts() if self.engine else []

    def engines(self) -> list[str]:
        """The names of the engines that a coordinator is for, those of the spares last."""
        return self.subject().collective().get("engines", [])

    def front_ends(self) -> list[str]:
        """The names of its front ends."""
        return self.subject().collective().get("front-ends", [])

    def target_roles(self) -> list[str]:
        """The roles that are processes of the target's: it starts them, they take no orders."""
        return self.subject().started_by_target()

    def roles(self) -> list[str]:
        """The names of its roles; first the one that the others depend on, the writer, say."""
        return self.subject().roles()

    def named(self, roles: tuple[str, ...]) -> list[str]:
        """Role names with ``readers``, ``workers``, ``engines`` and the like spelled out."""
        subject = self.subject()
        many = {"all": subject.roles(), **subject.collective()}
        return [name for role in roles for name in many.get(role, [role])]


def _prescribed(step: AnyStep) -> float:
    if isinstance(step, Pause | ContinueLoad | Flood | ServerContinueLoad):
        return step.seconds
    if isinstance(step, Send | Receive) and step.pace:
        several = (
            [each.repeat for each in step.messages] if isinstance(step, Send) else [step.count]
        )
        return sum(several) / step.pace
    return 0.0
