"""Sums of tensors over a stage: shared memory, NCCL, the host for one GPU, or two nodes."""

import importlib
import os
from typing import Any, Literal

from ..settings import WorkerContext
from .model import Reduce
from .node_sum import NodeSum
from .shared_sum import SharedSum

Way = Literal["alone", "memory", "nccl", "host", "nodes"]


def way_of(context: WorkerContext, gpus: int) -> Way:
    """Return the way to sum. NCCL needs a GPU for each rank; ranks that share one use the host."""
    if context.world_size == 1:
        return "alone"
    if context.node is not None:
        return "nodes"
    if context.device == "cpu":
        return "memory"
    return "nccl" if gpus >= context.world_size else "host"


def device_of(context: WorkerContext, gpus: int) -> str:
    """Return the rank's own device; there may be fewer GPUs than ranks."""
    if context.device != "cuda":
        return context.device
    if not gpus:
        raise RuntimeError("device is cuda, but torch finds no GPU here")
    return f"cuda:{context.rank % gpus}"


class Reducer:
    """Sums over the ranks of this stage. Every rank of the pool makes one, at the same time.

    NCCL alone listens, on loopback unless NCCL_SOCKET_IFNAME says otherwise: its transport across
    GPUs has no authentication.
    """

    def __init__(self, context: WorkerContext, way: Way, device: str) -> None:
        self._group: Any = None
        self._shared: SharedSum | None = None
        self._across: NodeSum | None = None
        self.reduce: Reduce = _itself
        if way == "nccl":
            self._join_nccl(context, device)
            self.reduce = self._by_nccl
        elif way == "nodes":
            self._join_nodes(context)
            self.reduce = self._by_nodes
        elif way != "alone":
            size, first = context.tensor_parallel, context.stage * context.tensor_parallel
            ranks = range(first, first + size)
            self._shared = shared = SharedSum(
                context.store, context.world_size, ranks, context.tensor_rank, context.wakeups
            )
            self.reduce = self._by_host if way == "host" else shared.reduce

    def close(self) -> None:
        """Leave the group of ranks."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        if self._across is not None:
            self._across.close()
            self._across = None
        if self._group is not None:
            self._group = None
            self._distributed.destroy_process_group()

    def _join_nccl(self, context: WorkerContext, device: str) -> None:
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        self._distributed: Any = importlib.import_module("torch.distributed")
        importlib.import_module("torch").cuda.set_device(device)
        distributed = self._distributed
        store = distributed.FileStore(context.store, context.world_size)
        distributed.init_process_group(
            "nccl", store=store, rank=context.rank, world_size=context.world_size
        )
        size = context.tensor_parallel
        for first in range(0, context.world_size, size):  # each rank makes all groups, in one order
            group = distributed.new_group(list(range(first, first + size)))
            if first == context.stage * size:
                self._group = group

    def _by_nccl(self, tensor: Any) -> Any:
        self._distributed.all_reduce(tensor, group=self._group)
        return tensor

    def _join_nodes(self, context: WorkerContext) -> None:
        """Share memory with the stage's ranks on this node, and link with one on the other."""
        node = context.node
        assert node is not None
        first = context.stage * context.tensor_parallel
        stage = range(first, first + context.tensor_parallel)
        here = range(max(stage.start, node.ranks.start), min(stage.stop, node.ranks.stop))
        if len(here) > 1:
            self._shared = SharedSum(
                context.store, context.world_size, here, here.index(context.rank), context.wakeups
            )
        self._across = NodeSum(node.sum_link)

    def _by_nodes(self, tensor: Any) -> Any:
        assert self._across is not None
        part = tensor.cpu()
        if self._shared is not None:
            part = self._shared.reduce(part)
        return tensor.copy_(self._across.reduce(part))

    def _by_host(self, tensor: Any) -> Any:
        assert self._shared is not None
        return tensor.copy_(self._shared.reduce(tensor.cpu()))


def _itself(tensor: Any) -> Any:
    return tensor
