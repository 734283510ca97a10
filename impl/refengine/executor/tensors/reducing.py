"""How the ranks of a stage sum tensors: gloo on CPUs, NCCL across GPUs, by the host on one GPU."""

import importlib
import os
from typing import Any, Literal

from ..place import Place
from .model import Reduce

Way = Literal["alone", "gloo", "nccl", "host"]


def way_of(place: Place, gpus: int) -> Way:
    """Which one serves. NCCL wants a GPU for each rank: ranks that share one go by the host."""
    if place.world_size == 1:
        return "alone"
    if place.device == "cpu":
        return "gloo"
    return "nccl" if gpus >= place.world_size else "host"


def device_of(place: Place, gpus: int) -> str:
    """The rank's own device; there may be fewer GPUs than ranks."""
    if place.device != "cuda":
        return place.device
    if not gpus:
        raise RuntimeError("device is cuda, but torch finds no GPU here")
    return f"cuda:{place.rank % gpus}"


class Reducer:
    """Sums over the ranks of this stage. Every rank of the pool makes one, at the same time."""

    def __init__(self, place: Place, way: Way, device: str) -> None:
        self._group: Any = None
        self._distributed: Any = importlib.import_module("torch.distributed")
        self.reduce: Reduce = _itself
        if way == "alone":
            return
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # nobody else may connect
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        distributed = self._distributed
        backend = "nccl" if way == "nccl" else "gloo"
        if way == "nccl":
            importlib.import_module("torch").cuda.set_device(device)
        store = distributed.FileStore(place.store, place.world_size)
        distributed.init_process_group(
            backend, store=store, rank=place.rank, world_size=place.world_size
        )
        size = place.tensor_parallel
        for first in range(0, place.world_size, size):  # each rank makes all groups, in one order
            group = distributed.new_group(list(range(first, first + size)))
            if first == place.stage * size:
                self._group = group
        self.reduce = self._by_host if way == "host" else self._directly

    def close(self) -> None:
        """Leave the group."""
        if self._group is not None:
            self._group = None
            self._distributed.destroy_process_group()

    def _directly(self, tensor: Any) -> Any:
        self._distributed.all_reduce(tensor, group=self._group)
        return tensor

    def _by_host(self, tensor: Any) -> Any:
        there = tensor.cpu()
        self._distributed.all_reduce(there, group=self._group)
        return tensor.copy_(there)


def _itself(tensor: Any) -> Any:
    return tensor
