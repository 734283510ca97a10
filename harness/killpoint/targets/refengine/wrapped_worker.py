"""A worker of the harness's in a pool of the reference; each worker process imports this."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refengine.executor import WorkerContext


class WrappedWorker:
    """A worker as the reference makes it, around one as the harness makes it."""

    def __init__(self, context: WorkerContext, worker: str) -> None:
        """``worker``: ``module:Class``."""
        self._worker = _named(worker)(context.rank, context.world_size)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the worker's own."""
        return getattr(self._worker, name)


def _named(worker: str) -> Any:
    module, _, name = worker.partition(":")
    return getattr(importlib.import_module(module), name)
