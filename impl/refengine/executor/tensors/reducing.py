"""How the ranks of a stage sum tensors: shared memory, NCCL across GPUs, by the host on one GPU."""

import importlib
import os
from typing import Any, Literal

from ..place import Place
from .model import Reduce
from .shared_sum import SharedSum

Way = Literal["alone", "memory", "nccl", "host"]


def way_of(place: Place, gpus: int) -> Way:
    """Which one serves. NCCL wants a GPU for each rank: ranks that share one go by the host."""
    if place.world_size == 1:
        return "alone"
    if place.device == "cpu":
        return "memory"
    return "nccl" if gpus >= place.world_size else "host"


def device_of(place: Place, gpus: int) -> str:
    """The rank's own device; there may be fewer GPUs than ranks."""
    if place.device != "cuda":
        return place.device
    if not gpus:
        raise RuntimeError("device is cuda, but torch finds no GPU here")
    return f"cuda:{place.rank % gpus}"


class Reducer:
    """Sums over the ranks of this stage. Every rank of the pool makes one, at the same time.

    NCCL alone listens, on loopback unless NCCL_SOCKET_IFNAME says otherwise: libraries' transport
    across GPUs has no authentication.
    """

    def __init__(self, place: Place, way: Way, device: str) -> None:
        self._group: Any = None
        self._shared: SharedSum | None = None
        self.reduce: Reduce = _itself
        if way == "nccl":
            self._join_nccl(place, device)
            self.reduce = self._by_nccl
        elif way != "alone":
            size, first = place.tensor_parallel, place.stage * place.tensor_parallel
            ranks = range(first, first + size)
            self._shared = shared = SharedSum(
                place.store, place.world_size, ranks, place.tensor_rank, place.bells
            )
            self.reduce = self._by_host if way == "host" else shared.reduce

    def close(self) -> None:
        """Leave the others."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        if self._group is not None:
            self._group = None
            self._distributed.destroy_process_group()

    def _join_nccl(self, place: Place, device: str) -> None:
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        self._distributed: Any = importlib.import_module("torch.distributed")
        importlib.import_module("torch").cuda.set_device(device)
        distributed = self._distributed
        store = distributed.FileStore(place.store, place.world_size)
        distributed.init_process_group(
            "nccl", store=store, rank=place.rank, world_size=place.world_size
        )
        size = place.tensor_parallel
        for first in range(0, place.world_size, size):  # each rank makes all groups, in one order
            group = distributed.new_group(list(range(first, first + size)))
            if first == place.stage * size:
                self._group = group

    def _by_nccl(self, tensor: Any) -> Any:
        self._distributed.all_reduce(tensor, group=self._group)
        return tensor

    def _by_host(self, tensor: Any) -> Any:
        assert self._shared is not None
        return tensor.copy_(self._shared.reduce(tensor.cpu()))


def _itself(tensor: Any) -> Any:
    return tensor
