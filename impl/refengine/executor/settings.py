"""What a pool can be told at its start: sizes, times, how processes come to be."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

StartMethod = Literal["zygote", "spawn", "fork", "forkserver"]


@dataclass(frozen=True)
class PoolSettings:
    """Times are seconds; None: no limit."""

    start: StartMethod = "zygote"
    preload: tuple[str, ...] = ("torch",)
    """Modules that the zygote imports, once, before it forks the first worker."""
    start_timeout: float | None = 300.0
    """For every worker to be READY, loading included."""
    execute_timeout: float | None = None
    health_timeout: float | None = 10.0
    grace: float = 4.0
    """To leave by itself when the pool shuts down; then comes SIGTERM."""
    term_grace: float = 4.0
    """From SIGTERM to SIGKILL."""
    in_flight: int = 1
    """Non-blocking calls at once; one more waits until the oldest is done."""
    output_thread: bool = False
    """Results leave a worker through a thread of their own, while it runs the next call."""
    transfers: bool = False
    """`execute_model` hears every rank, and says which transfers all of them have finished."""
    max_chunk_bytes: int = 1 << 20
    """Of the queue of requests, and of each worker's queue of replies. Their memory is reserved at
    the start, which takes its time; a larger message takes several chunks, or the socket."""
    max_chunks: int = 10
    log_prefix: bool = True
    """Each line that a worker prints begins with its rank and pid."""
    failure_callbacks: list[Callable[[], None]] = field(
        default_factory=lambda: list[Callable[[], None]]()
    )


@dataclass(frozen=True)
class WorkerSpec:
    """Which class, and with what. By name, "module:Class", or the class itself."""

    worker: str | type
    options: dict[str, Any]
