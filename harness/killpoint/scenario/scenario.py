"""A scenario is data: topology, workload, faults in the order they happen, and what must hold."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from killpoint.pool_matrix import Ending
from killpoint.scenario.orders import Orders
from killpoint.scenario.steps import NETWORK_FAULTS, AnyStep, Count, Fault, MemoryModel, StartMethod
from killpoint.scenario.wakes import Wakes
from killpoint.targets.protocol import GroupShape, PipeShape, PoolShape, QueueShape


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
    pool: PoolShape | None = None
    """A worker pool instead of a queue: the roles are ``executor`` and its workers, ``worker-0``
    and so on, which the target itself starts."""
    pipe: PipeShape | None = None
    """A pipe instead of a queue: the roles are its ranks, ``pipe-0`` and so on."""
    expects: Ending | None = None
    """How what is done to the pool must end (the kill matrix); None: as its invariant has it."""
    terminal: bool = False
    """The executor is a whole program: the foreground job of a shell at a terminal of its own. A
    KeyboardInterrupt has it stop its pool, and end."""
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
    orders: Orders | None = None
    """The model tier, instead of processes: the wave protocol, without steps."""
    wakes: Wakes | None = None
    """A coordinator alone, in simulated time, without steps."""

    def readers(self) -> list[str]:
        """The names of its readers."""
        return [f"reader-{rank}" for rank in range(self.shape.readers)]

    def remote(self) -> list[str]:
        """The names of the readers that are reached over TCP."""
        return self.readers()[self.shape.readers - self.shape.remote :]

    def connecting(self) -> list[str]:
        """The roles that reach the first one over TCP: remote readers, or other ranks."""
        return self.roles()[1:] if self.group or self.pipe else self.remote()

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

    def workers(self) -> list[str]:
        """The names of its pool's workers: they come by themselves."""
        return [f"worker-{rank}" for rank in range(self.pool.workers)] if self.pool else []

    def roles(self) -> list[str]:
        """The names of its roles, the writer, rank 0 or the executor first."""
        if self.pool is not None:
            return ["executor", *self.workers()]
        if self.group is not None:
            return [f"rank-{rank}" for rank in range(self.group.ranks)]
        if self.pipe is not None:
            return [f"pipe-{rank}" for rank in range(self.pipe.size)]
        return ["writer", *self.readers()]

    def named(self, roles: tuple[str, ...]) -> list[str]:
        """Role names with ``readers``, ``workers`` and ``all`` spelled out."""
        out: list[str] = []
        for role in roles:
            many = {"all": self.roles(), "readers": self.readers(), "workers": self.workers()}
            out += many.get(role, [role])
        return out
