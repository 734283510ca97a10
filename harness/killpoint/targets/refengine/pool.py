"""The reference's worker pool as capability ``pool``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from killpoint.targets.protocol import Outcome
from killpoint.targets.refengine.wrapped_worker import WrappedWorker
from killpoint.targets.shapes import PoolShape
from refengine.executor import CallFailed, Executor, PoolClosed, PoolSettings

OUTCOMES: tuple[tuple[type[BaseException], Outcome], ...] = (
    (CallFailed, "failed"),
    (PoolClosed, "closed"),
)
_START = 300.0


def preloads(worker: str) -> tuple[str, ...]:
    """Return the modules that workers of this class are forked with."""
    modules = (worker.partition(":")[0], WrappedWorker.__module__)
    return (*modules, "torch") if "torch" in sys.modules else modules


class PoolOfRefengine:
    """The half of the adapter that the executor's role needs."""

    def pool_start(self, shape: PoolShape, worker: str, timeout: float | None) -> Executor:
        """Start a pool; all workers are ready when this returns."""
        settings = PoolSettings(
            start="zygote" if shape.start == "default" else shape.start,
            preload=preloads(worker),
            start_timeout=_START if timeout is None else timeout,
            grace=shape.grace,
            term_grace=shape.grace,
            in_flight=shape.in_flight,
            output_thread=shape.output_thread,
            max_chunk_bytes=shape.chunk_bytes,
            max_chunks=shape.chunks,
            transfers=shape.transfers,
            log_prefix=False,
        )
        return Executor(
            WrappedWorker,
            shape.workers,
            shape.tensor,
            device=shape.device,
            options={"worker": worker},
            settings=settings,
        )

    def pool_call(
        self,
        end: Executor,
        method: str | Callable[..., Any],
        args: tuple[Any, ...],
        timeout: float | None,
        rank: int | None,
    ) -> Any:
        """Have every worker run it."""
        return end.collective_rpc(method, timeout, args, unique_reply_rank=rank)

    def pool_execute(self, end: Executor, scheduled: object) -> Any:
        """Run a step of the model."""
        return end.execute_model(scheduled)

    def pool_submit(
        self,
        end: Executor,
        method: str | Callable[..., Any],
        args: tuple[Any, ...],
        rank: int | None,
    ) -> Future[Any]:
        """Have every worker run it, without waiting."""
        return end.collective_rpc(method, None, args, non_block=True, unique_reply_rank=rank)

    def pool_result(self, end: Executor, future: Future[Any], timeout: float | None) -> Any:
        """Return its value."""
        return future.result(timeout)

    def pool_done(self, end: Executor, future: Future[Any]) -> bool:
        """Return whether it is resolved."""
        return future.done()

    def pool_health(self, end: Executor, timeout: float | None) -> None:
        """Return, or raise what is wrong."""
        end.check_health(timeout)

    def pool_on_failure(self, end: Executor, callback: Callable[[], None]) -> None:
        """Have the pool's monitor call it."""
        end.on_failure(callback)

    def pool_state(self, end: Executor) -> str:
        """Return the state of SPEC W1."""
        return end.state.lower()

    def pool_pids(self, end: Executor) -> list[int]:
        """Return the workers' pids by rank."""
        return end.pids

    def pool_stop(self, end: Executor) -> None:
        """Shut down; all workers are gone when this returns."""
        end.shutdown()
