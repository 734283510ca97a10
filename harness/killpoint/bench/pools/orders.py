"""Timed orders of a measuring process on a pool."""

from __future__ import annotations

import gc
import importlib
import time
from typing import Any

from killpoint.targets.shapes import PoolShape

_START = 120.0
_METHOD = "nothing"


class PoolOrders:
    """The pool's half of a measuring process."""

    def __init__(self, target: Any) -> None:
        """``target``: whose pools are measured."""
        self._target = target
        self._pool: Any = None

    def pool_start(self, shape: PoolShape, worker: str) -> tuple[float, list[int]]:
        """Seconds until all workers are ready, and their pids."""
        gc.collect()
        start = time.monotonic()
        self._pool = self._target.pool_start(shape, worker, _START)
        took = time.monotonic() - start
        return took, self._target.pool_pids(self._pool)

    def pool_calls(self, count: int) -> list[int]:
        """Nanoseconds of each of as many calls, which every worker answers."""
        call, pool, clock = self._target.pool_call, self._pool, time.monotonic_ns
        gc.collect()
        took = list[int]()
        for _ in range(count):
            start = clock()
            call(pool, _METHOD, (), None, None)
            took.append(clock() - start)
        return took

    def pool_stop(self) -> None:
        """End it."""
        pool, self._pool = self._pool, None
        if pool is not None:
            self._target.pool_stop(pool)

    def have(self, module: str) -> None:
        """Import it: a pool that forks from a warm process may then find it there."""
        importlib.import_module(module)
