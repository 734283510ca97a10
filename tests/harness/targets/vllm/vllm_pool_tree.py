"""A tree with an executor that is called as vLLM's is, over pipes, and a worker class for it."""

from __future__ import annotations

import os
from pathlib import Path

from package_index import FOLDER, QUEUE

EXECUTOR = """
from multiprocessing import connection
from vllm.distributed.device_communicators.shm_broadcast import Handle, MessageQueue
from vllm.utils import get_mp_context
from vllm.v1.executor.abstract import Executor
from vllm.v1.worker.worker_base import WorkerWrapperBase

class Worker:
    def __init__(self, proc, pipe): self.proc, self.pipe = proc, pipe

def serve(config, rank, pipe):
    wrapper = WorkerWrapperBase(rpc_rank=rank)
    wrapper.init_worker([{"vllm_config": config}] * config.parallel_config.world_size)
    wrapper.init_device()
    wrapper.load_model()
    queue = MessageQueue(1, 1)
    pipe.send((queue.max_chunk_bytes, queue.max_chunks))
    while True:
        method, args = pipe.recv()
        if method is None:
            break
        pipe.send(getattr(wrapper, method)(*args))
    wrapper.shutdown()

class MultiprocExecutor(Executor):
    def _init_executor(self):
        context, self.workers, self.callback = get_mp_context(), [], None
        for rank in range(self.parallel_config.world_size):
            ours, theirs = context.Pipe()
            proc = context.Process(target=serve, args=(self.vllm_config, rank, theirs), daemon=True)
            proc.start()
            self.workers.append(Worker(proc, ours))
        self.sizes = [worker.pipe.recv() for worker in self.workers]

    def collective_rpc(self, method, timeout=None, args=(), kwargs=None, non_block=False,
                       unique_reply_rank=None, kv_output_aggregator=None):
        for worker in self.workers:
            worker.pipe.send((method, args))
        told = [worker.pipe.recv() for worker in self.workers]
        return told if unique_reply_rank is None else told[unique_reply_rank]

    def check_health(self):
        self.collective_rpc("check_health", timeout=10)

    def register_failure_callback(self, callback):
        self.callback = callback

    def shutdown(self):
        for worker in self.workers:
            worker.pipe.send((None, ()))
            worker.proc.join()
        self.workers = []
"""
ABSTRACT = """
class Executor:
    def __init__(self, vllm_config):
        self.vllm_config = vllm_config
        self.parallel_config = vllm_config.parallel_config
        self._init_executor()
"""
QUEUES = QUEUE.replace(
    "class MessageQueue:",
    "class Handle: ...\nclass MessageQueue:\n"
    "    def __init__(self, n_reader, n_local_reader, max_chunk_bytes=9, max_chunks=9):\n"
    "        self.max_chunk_bytes, self.max_chunks = max_chunk_bytes, max_chunks\n",
)


def pool_tree(root: Path, executor: str = EXECUTOR) -> str:
    """Write such a tree; what to build it by."""
    (root / FOLDER).mkdir(parents=True)
    (root / FOLDER / "shm_broadcast.py").write_text(QUEUES)
    home = root / "vllm" / "v1" / "executor"
    home.mkdir(parents=True)
    (home / "multiproc_executor.py").write_text(executor)
    (home / "abstract.py").write_text(ABSTRACT)
    return f"vllm@{root}"


class EchoWorker:
    """Says who and where it is."""

    def __init__(self, rank: int, workers: int) -> None:
        self.rank = rank
        self.workers = workers
        self.steps = ["made"]

    def init_device(self) -> None:
        self.steps.append("device")

    def load_model(self) -> None:
        self.steps.append("model")

    def who(self, word: str) -> tuple[int, int, str, list[str]]:
        return self.rank, self.workers, word, self.steps

    def pid(self) -> int:
        return os.getpid()
