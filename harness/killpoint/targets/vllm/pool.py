"""vLLM's ``MultiprocExecutor`` as a worker pool, unmodified, in all releases."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import msgspec

from killpoint.errors import CannotWork
from killpoint.targets.protocol import Outcome, UnsupportedByTarget
from killpoint.targets.shapes import PoolShape
from killpoint.targets.vllm import pool_starts
from killpoint.targets.vllm.pool_features import PoolFeatures
from killpoint.targets.vllm.pool_settings import settings
from killpoint.targets.vllm.sources import EXECUTOR, Features, Sources

_HEALTH = 10.0
"""Seconds that every release grants its own check of its workers' health."""
_START = 15.0
"""Least seconds of a start's timeout that only bounds a start that goes well. A shorter one is
meant to end the start, as where a worker is stopped while it starts (6 s, or 12 s if spawned), and
no release has such a deadline."""
_GRACE = "VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS"


class Pool(msgspec.Struct, frozen=True):
    """End of a pool: vLLM's own executor, and the pids of its workers."""

    executor: Any
    pids: tuple[int, ...]


class Several(msgspec.Struct, frozen=True):
    """Futures of one call, in releases that give one for each worker."""

    futures: tuple[Any, ...]


class VllmPools:
    """The pool's half of the adapter. Ends hold vLLM's own ``MultiprocExecutor`` objects."""

    version: str
    sources: Sources
    features: Features

    def pool_start(self, shape: PoolShape, worker: str, timeout: float | None) -> Pool:
        """Make the executor; no release has a deadline for that, or names the worker that failed.

        Of ``shape.grace`` only what releases let be set is honoured: see the notes.
        """
        offers = self._offers()
        self._needs(shape.device == "cpu", f"worker of the harness's on {shape.device}")
        self._needs(timeout is None or timeout >= _START, "deadline for its start")
        overlapping = self._overlapping(shape, offers)
        method = "fork" if shape.start == "default" else shape.start
        self._needs(method in offers.starts, f"start method {method} for its workers")
        os.environ[_GRACE] = str(max(1, math.ceil(shape.grace)))
        sizes = (shape.chunk_bytes, shape.chunks)
        context = pool_starts.context(
            method, pool_starts.WorkerEnvironment(self.sources.spec, *sizes)
        )
        module = sized(*sizes)
        module.get_mp_context = lambda: context
        executor = module.MultiprocExecutor(settings(shape, worker, overlapping=overlapping))
        return Pool(executor, tuple(handle.proc.pid for handle in executor.workers))

    def pool_call(
        self,
        end: Pool,
        method: str | Callable[..., Any],
        args: tuple[Any, ...],
        timeout: float | None,
        rank: int | None,
    ) -> Any:
        """Call ``collective_rpc``."""
        told = end.executor.collective_rpc(
            method, timeout=timeout, args=args, **self._replying(rank)
        )
        return self._value(told, rank)

    def pool_submit(
        self, end: Pool, method: str | Callable[..., Any], args: tuple[Any, ...], rank: int | None
    ) -> Any:
        """Call ``collective_rpc`` without waiting, where release and pool's shape allow it."""
        offers = self._offers()
        self._needs(offers.non_blocking, "non-blocking calls")
        threaded = getattr(end.executor, "io_thread_pool", None) is not None
        self._needs(offers.lazy_futures or threaded, "non-blocking calls one at a time")
        told = end.executor.collective_rpc(
            method, args=args, non_block=True, **self._replying(rank)
        )
        if offers.lazy_futures:
            return told
        return Several(tuple(told)) if rank is None else told[0]

    def pool_result(self, end: Pool, future: Any, timeout: float | None) -> Any:
        """Call ``result``; it takes no timeout where futures are of vLLM's own kind."""
        del end
        self._needs(timeout is None or not self._offers().lazy_futures, "timeouts of futures")
        if not isinstance(future, Several):
            return future.result(timeout)
        return [part.result(timeout) for part in future.futures]

    def pool_done(self, end: Pool, future: Any) -> bool:
        """Call ``done``: vLLM's own kind is done only once this or a later one was asked."""
        del end
        parts = future.futures if isinstance(future, Several) else (future,)
        return all(part.done() for part in parts)

    def pool_health(self, end: Pool, timeout: float | None) -> None:
        """Call ``check_health``, whose deadline is vLLM's own."""
        self._needs(timeout is None or timeout >= _HEALTH, "deadline for health but its own 10 s")
        end.executor.check_health()

    def pool_on_failure(self, end: Pool, callback: Callable[[], None]) -> None:
        """Call ``register_failure_callback``."""
        end.executor.register_failure_callback(callback)

    def pool_state(self, end: Pool) -> str:
        """Return an empty text: vLLM has no such states."""
        del end
        return ""

    def pool_pids(self, end: Pool) -> list[int]:
        """Return the pids as they were when all were ready."""
        return list(end.pids)

    def pool_stop(self, end: Pool) -> None:
        """Call ``shutdown``."""
        end.executor.shutdown()

    def _offers(self) -> PoolFeatures:
        found = self.features.pool
        if found is None:
            raise UnsupportedByTarget(f"vllm {self.version} has no worker pool")
        return found

    def _needs(self, offered: bool, what: str) -> None:
        if not offered:
            raise UnsupportedByTarget(f"vllm {self.version} has no {what}")

    def _overlapping(self, shape: PoolShape, offers: PoolFeatures) -> bool:
        """Return whether asynchronous scheduling must be on for a pool of this shape."""
        stages, rest = divmod(shape.workers, shape.tensor or shape.workers)
        self._needs(not rest and stages > 0, f"{shape.workers} workers by {shape.tensor}")
        self._needs(stages == 1 or offers.pipeline, "pipeline stages")
        self._needs(offers.output_thread or not shape.output_thread, "output thread")
        free = offers.lazy_futures or shape.in_flight <= max(stages, 1)
        enough = free or (offers.overlap and shape.in_flight == 2)
        self._needs(enough, f"{shape.in_flight} calls in flight on {stages} pipeline stages")
        return shape.output_thread or not free

    def _replying(self, rank: int | None) -> dict[str, Any]:
        if self._offers().any_rank:
            return {} if rank is None else {"unique_reply_rank": rank}
        self._needs(rank in (None, 0), "reply from one rank but rank 0")
        return {"rank0_reply_only": rank == 0}

    def _value(self, told: Any, rank: int | None) -> Any:
        return told if rank is None or self._offers().bare_reply else told[0]


def sized(chunk_bytes: int, chunks: int) -> Any:
    """Return the executor's module, which makes its queues of this size from now on."""
    module: Any = sys.modules.get(EXECUTOR)
    if module is None:
        raise CannotWork(f"{EXECUTOR} was not loaded")
    bare: Any = sys.modules[module.Handle.__module__].__dict__["MessageQueue"]
    sizes = {"max_chunk_bytes": chunk_bytes, "max_chunks": chunks}

    def made(queue: Any, *args: Any, **kwargs: Any) -> None:
        bare.__init__(queue, *args, **(kwargs | sizes))

    module.MessageQueue = type("SizedQueue", (bare,), {"__init__": made})
    return module


def word(error: BaseException) -> Outcome | None:
    """Return the outcome of a pool's exception: vLLM has no types of its own for them."""
    text = str(error)
    if isinstance(error, CancelledError):
        return "cancelled"
    if isinstance(error, RuntimeError) and text.startswith("Worker failed with"):
        return "failed"
    if isinstance(error, RuntimeError) and text == "Executor failed.":
        return "peer-died"
    return None
