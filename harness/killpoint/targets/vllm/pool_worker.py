"""The wrapper between vLLM's worker process and a worker class of the harness's own."""

from __future__ import annotations

import importlib
from typing import Any


class WorkerWrapper:
    """Stand-in for ``WorkerWrapperBase``: it makes the worker and passes calls on.

    Releases give it the rank among this node's processes, and some the settings at once, others
    only with ``init_worker``.
    """

    def __init__(
        self, vllm_config: object = None, rpc_rank: int = 0, global_rank: int | None = None
    ) -> None:
        del vllm_config
        self.rpc_rank = rpc_rank
        self.rank = rpc_rank if global_rank is None else global_rank
        self.worker: Any = None

    def init_worker(self, all_kwargs: list[dict[str, Any]]) -> None:
        """Make the worker: ``Class(rank, workers)``."""
        parallel = all_kwargs[self.rpc_rank]["vllm_config"].parallel_config
        module, _, name = parallel.worker_cls.partition(":")
        self.worker = getattr(importlib.import_module(module), name)(self.rank, parallel.world_size)

    def init_device(self) -> None:
        """Call the worker's own."""
        self.worker.init_device()

    def load_model(self) -> None:
        """Call the worker's own."""
        self.worker.load_model()

    def check_health(self) -> None:
        """Do nothing, as vLLM's own workers: a worker that answers is well."""

    def shutdown(self) -> None:
        """Call the worker's own, if it came to be and has one."""
        leave = getattr(self.worker, "shutdown", None)
        if leave is not None:
            leave()

    def __getattr__(self, name: str) -> Any:
        if name == "device":
            raise AttributeError("a worker of the harness's has no device of vLLM's")
        return getattr(self.__dict__["worker"], name)
