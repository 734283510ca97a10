"""Settings of a pool, and the context that a worker object is made with."""

import fcntl
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

from .nodes.settings import NodeContext, NodeSettings

StartMethod = Literal["zygote", "spawn", "fork", "forkserver"]


@dataclass(frozen=True)
class PoolSettings:
    """Settings of a pool. Times are seconds; None: no limit."""

    start: StartMethod = "zygote"
    preload: tuple[str, ...] = ("torch",)
    """Modules that the zygote imports, once, before it forks the first worker."""
    start_timeout: float | None = 300.0
    """Limit for every worker to be READY, loading included."""
    execute_timeout: float | None = None
    health_timeout: float | None = 10.0
    grace: float = 4.0
    """Time that a worker has to leave by itself when the pool shuts down; then comes SIGTERM."""
    term_grace: float = 4.0
    """Time from SIGTERM to SIGKILL."""
    in_flight: int = 1
    """Number of non-blocking calls at once; one more waits until the oldest is done."""
    output_thread: bool = False
    """Results leave a worker through a thread of their own, while it runs the next call."""
    transfers: bool = False
    """True: every rank replies to `execute_model`; the result names transfers that all finished."""
    max_chunk_bytes: int = 1 << 20
    """Chunk size of the queue of requests, and of each worker's queue of replies. Memory is
    reserved at the start, which takes its time; a larger message takes several chunks, or the
    socket."""
    max_chunks: int = 10
    log_prefix: bool = True
    """Each line that a worker prints begins with its rank and pid."""
    nodes: NodeSettings | None = None
    """The two nodes that the pool runs on; None: this machine alone."""
    failure_callbacks: list[Callable[[], None]] = field(
        default_factory=lambda: list[Callable[[], None]]()
    )


@dataclass(frozen=True)
class WorkerSpec:
    """Class of the worker, itself or as "module:Class", and its options."""

    worker: str | type
    options: dict[str, Any]


class SharedLock:
    """One lock for all workers of a pool; a worker that dies with it releases it.

    Every worker opens the locked file for itself: the kernel releases a lock with its holder.
    """

    def __init__(self, fd: int) -> None:
        self._fd = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        self._threads = threading.Lock()

    def acquire(self) -> None:
        """Wait until no other worker and no other thread of this one has the lock."""
        self._threads.acquire()
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def release(self) -> None:
        """Release the lock."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._threads.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def __del__(self) -> None:
        fd = getattr(self, "_fd", -1)
        if fd >= 0:
            os.close(fd)


@dataclass(frozen=True)
class WorkerContext:
    """A worker's rank and device, and what it shares with the pool's other workers.

    `world_size = tensor_parallel * pipeline stages`; ranks of one stage are neighbours.
    """

    rank: int
    world_size: int
    tensor_parallel: int
    device: str
    lock: SharedLock
    """Lock of all workers of the pool."""
    store: str
    """Path of a file without a name that all workers share: for sums in memory, or for NCCL's
    `torch.distributed.FileStore`."""
    wakeups: tuple[int, ...] = ()
    """Eventfds of this stage's ranks, in their order: each reads its own and writes the others'.
    Of two nodes: those of this stage's ranks on this node."""
    node: NodeContext | None = None
    """Place of the rank, if the pool runs on two nodes."""

    @property
    def is_driver(self) -> bool:
        """True if the rank is the first of its stage."""
        return self.rank % self.tensor_parallel == 0

    @property
    def tensor_rank(self) -> int:
        """Rank within its stage."""
        return self.rank % self.tensor_parallel

    @property
    def stage(self) -> int:
        """Number of the pipeline stage."""
        return self.rank // self.tensor_parallel
