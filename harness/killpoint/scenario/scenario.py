"""A scenario is data: topology, workload, faults in the order they happen, and what must hold."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from killpoint.pool_matrix import Ending
from killpoint.scenario.coordinator_steps import Flood
from killpoint.scenario.engine_steps import Serve
from killpoint.scenario.orders import Orders
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
from killpoint.scenario.wakes import Wakes
from killpoint.systems.server.steps import SERVER_PARTS, ServerServe, ServerShape
from killpoint.targets.coordinator_protocol import CoordinatorShape
from killpoint.targets.engine_protocol import EngineShape
from killpoint.targets.protocol import GroupShape, PipeShape, PoolShape, QueueShape


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

    def readers(self) -> list[str]:
        """Return the names of the readers."""
        return [f"reader-{rank}" for rank in range(self.shape.readers)]

    def remote(self) -> list[str]:
        """Return the names of the readers that are reached over TCP."""
        return self.readers()[self.shape.readers - self.shape.remote :]

    def connecting(self) -> list[str]:
        """Return the roles that reach the first by TCP: remote readers, other ranks, or peers."""
        if self.coordinator:
            return [*self.engines(), *self.front_ends()]
        return self.roles()[1:] if self.group or self.pipe else self.remote()

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
        """Return the names of the pool's workers, which the target starts."""
        return [f"worker-{rank}" for rank in range(self.pool.workers)] if self.pool else []

    def parts(self) -> list[str]:
        """Return the names of the engine's processes, which the target starts."""
        return self.engine.parts() if self.engine else []

    def engines(self) -> list[str]:
        """Return the names of the engines that a coordinator is for, those of the spares last."""
        if self.coordinator is None:
            return []
        return [f"engine-{n}" for n in range(self.coordinator.engines + self.coordinator.spares)]

    def front_ends(self) -> list[str]:
        """Return the names of the front ends."""
        return [
            f"front-end-{n}" for n in range(self.coordinator.front_ends if self.coordinator else 0)
        ]

    def comers(self) -> list[str]:
        """Return the roles that the target itself starts as processes; they take no orders."""
        return ["coordinator"] if self.coordinator else [*self.workers(), *self.parts()]

    def roles(self) -> list[str]:
        """Return the role names, first the one that the others depend on, such as the writer."""
        if self.server is not None:
            return list(SERVER_PARTS)
        if self.coordinator is not None:
            return ["parent", "coordinator", *self.engines(), *self.front_ends()]
        if self.engine is not None:
            return ["front-end", *self.parts()]
        if self.pool is not None:
            return ["executor", *self.workers()]
        if self.group is not None:
            return [f"rank-{rank}" for rank in range(self.group.ranks)]
        if self.pipe is not None:
            return [f"pipe-{rank}" for rank in range(self.pipe.size)]
        return ["writer", *self.readers()]

    def named(self, roles: tuple[str, ...]) -> list[str]:
        """Return role names with ``readers``, ``workers``, ``engines`` and the like spelled out."""
        many = {"all": self.roles(), "readers": self.readers(), "workers": self.workers()}
        if self.coordinator is not None:
            many |= {"engines": self.engines(), "front-ends": self.front_ends()}
        out: list[str] = []
        for role in roles:
            out += many.get(role, [role])
        return out


def _prescribed(step: AnyStep) -> float:
    if isinstance(step, Pause | Serve | Flood | ServerServe):
        return step.seconds
    if isinstance(step, Send | Receive) and step.pace:
        several = (
            [each.repeat for each in step.messages] if isinstance(step, Send) else [step.count]
        )
        return sum(several) / step.pace
    return 0.0
