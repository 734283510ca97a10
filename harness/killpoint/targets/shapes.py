"""The shapes of queue, group, pool and pipe: what a scenario has made, and its roles."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Protocol

import msgspec


class Shape(Protocol):
    """Description of what is to be made, and the roles of its scenarios."""

    system: ClassVar[str]
    """Name of the system that it belongs to."""

    def roles(self) -> list[str]:
        """Return the names of all roles; first the one that the others depend on."""
        ...

    def collective(self) -> dict[str, list[str]]:
        """Return the names that stand for several roles in a step, beside ``all``."""
        ...

    def started_by_target(self) -> list[str]:
        """Return the roles that are processes of the target's: they take no orders."""
        ...

    def connecting(self) -> list[str]:
        """Return the roles that reach the first one over TCP."""
        ...


class QueueShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A queue to be made: how many readers, and the ring's dimensions."""

    readers: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 2
    chunk_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] = 64 * 1024
    chunks: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 4
    remote: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0
    """Number of the readers, those with the highest ranks, that are reached over TCP."""
    host: str = "127.0.0.1"
    """Address the writer listens at for remote readers, IPv4 or IPv6, and at no other."""
    silence: Annotated[float, msgspec.Meta(gt=0, le=3600)] | None = None
    """Seconds without a sign of life after which a remote party counts as cut off (Q18); None:
    the target's default. A target that cannot set it (capability ``silence``) ignores it."""
    max_buffers: int | None = None
    """Format limit on the number of buffers in a message (capability ``limits``)."""
    max_buffer_bytes: int | None = None
    """Format limit on the length of one buffer (capability ``limits``)."""

    system: ClassVar[str] = "queue"

    def roles(self) -> list[str]:
        """Return the writer, then the readers by rank."""
        return ["writer", *(f"reader-{rank}" for rank in range(self.readers))]

    def collective(self) -> dict[str, list[str]]:
        """Return all readers under one name."""
        return {"readers": self.roles()[1:]}

    def started_by_target(self) -> list[str]:
        """Return no role: the runner starts all of them."""
        return []

    def connecting(self) -> list[str]:
        """Return the readers that are reached over TCP."""
        return self.roles()[1 + self.readers - self.remote :]


class GroupShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A process group to be made."""

    ranks: Annotated[int, msgspec.Meta(ge=1, le=256)] = 3
    host: str = "127.0.0.1"
    """Address that rank 0 listens at, IPv4 or IPv6, and at no other."""
    silence: Annotated[float, msgspec.Meta(gt=0, le=3600)] | None = None
    """Seconds without a sign of life after which a party counts as cut off, as for a queue."""

    system: ClassVar[str] = "group"

    def roles(self) -> list[str]:
        """Return the ranks; the first is the host."""
        return [f"rank-{rank}" for rank in range(self.ranks)]

    def collective(self) -> dict[str, list[str]]:
        """Return no name for several ranks."""
        return {}

    def started_by_target(self) -> list[str]:
        """Return no role: the runner starts all of them."""
        return []

    def connecting(self) -> list[str]:
        """Return the ranks that connect to the host."""
        return self.roles()[1:]


Device = Literal["cpu", "cuda"]


class PoolShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker pool to be made."""

    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 2
    """World size of the pool."""
    tensor: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    """Tensor-parallel size; None: all workers. Workers by this are the pipeline's stages."""
    start: Literal["default", "spawn", "fork", "forkserver"] = "default"
    """Start method of its workers."""
    in_flight: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Largest number of non-blocking calls at once."""
    output_thread: bool = False
    """True if replies leave a worker through a thread of their own."""
    chunk_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] = 64 * 1024
    """Chunk size of its queues, where a target lets that be set; ``chunks`` likewise."""
    chunks: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 4
    grace: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.5
    """Seconds that a worker is given to leave by itself, and again after SIGTERM."""
    device: Device = "cpu"
    """Device that its workers run on; several share a GPU where there are fewer GPUs than
    workers."""
    transfers: bool = False
    """True if results of steps name the transfers that all ranks have finished."""

    system: ClassVar[str] = "pool"

    @property
    def output_rank(self) -> int:
        """Rank that has the results of a step: the first one of the last stage."""
        return self.workers - (self.tensor or self.workers)

    def roles(self) -> list[str]:
        """Return the executor, then its workers by rank."""
        return ["executor", *self.started_by_target()]

    def collective(self) -> dict[str, list[str]]:
        """Return all workers under one name."""
        return {"workers": self.started_by_target()}

    def started_by_target(self) -> list[str]:
        """Return the workers, which the executor starts."""
        return [f"worker-{rank}" for rank in range(self.workers)]

    def connecting(self) -> list[str]:
        """Return no role: a pool lives on one machine."""
        return []


class PipeShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A pipe to be made."""

    size: Annotated[int, msgspec.Meta(ge=1, le=64)] = 2
    """Number of ranks: each sends to the next one, the last to the first."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device that its tensors lie on, and arrive at."""
    transport: str = ""
    """Transport that carries them, where a target lets that be set; empty: the target's choice."""
    buffer_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] = 1 << 20
    """Number of unsent bytes beyond which a sender has to wait."""

    system: ClassVar[str] = "pipe"

    def roles(self) -> list[str]:
        """Return the ranks."""
        return [f"pipe-{rank}" for rank in range(self.size)]

    def collective(self) -> dict[str, list[str]]:
        """Return no name for several ranks."""
        return {}

    def started_by_target(self) -> list[str]:
        """Return no role: the runner starts all of them."""
        return []

    def connecting(self) -> list[str]:
        """Return the ranks but the first, which the others meet at."""
        return self.roles()[1:]
