"""Workers without a model under vLLM's own executor."""

import os
import select
import types

from vllm.v1.executor import multiproc_executor


class Settings(types.SimpleNamespace):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)


class Worker:
    """Stands for vLLM's wrapper around a worker; its methods can be called by name."""

    def __init__(self, rpc_rank=0, global_rank=None, **settings):
        self.rank = rpc_rank

    def init_worker(self, all_kwargs):
        pass

    def init_device(self):
        pass

    def load_model(self):
        pass

    def shutdown(self):
        pass

    def pid(self):
        return os.getpid()


def started(worker, ranks=2, asynchronous=False):
    """An executor with this many workers of a class; asynchronous: with threads that answer."""
    parallel = Settings(
        world_size=ranks,
        local_world_size=ranks,
        tensor_parallel_size=ranks,
        pipeline_parallel_size=1,
        prefill_context_parallel_size=1,
        data_parallel_size=1,
        data_parallel_size_local=1,
        nnodes=1,
        nnodes_within_dp=1,
        node_rank=0,
        node_rank_within_dp=0,
    )
    multiproc_executor.WorkerWrapperBase = worker
    multiproc_executor.enable_envs_cache = lambda: None  # it evaluates settings of no use here
    scheduler = Settings(async_scheduling=asynchronous)
    settings = Settings(parallel_config=parallel, scheduler_config=scheduler)
    return multiproc_executor.MultiprocExecutor(settings)


def alive(pid, seconds):
    """Whether a process runs still after so many seconds; it need not be a child."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    return not select.select([process], [], [], seconds)[0]
