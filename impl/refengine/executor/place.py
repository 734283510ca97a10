"""A worker's place in its pool: what its class is made with."""

from dataclasses import dataclass

from .shared_lock import SharedLock


@dataclass(frozen=True)
class Place:
    """`world_size = tensor_parallel * pipeline stages`; ranks of one stage are neighbours."""

    rank: int
    world_size: int
    tensor_parallel: int
    device: str
    lock: SharedLock
    """One for all workers of the pool."""
    store: str
    """Path of a file without a name that all workers share: for sums in memory, or for NCCL's
    `torch.distributed.FileStore`."""
    bells: tuple[int, ...] = ()
    """Eventfds of this stage's ranks, in their order: each reads its own, and rings the others'."""

    @property
    def is_driver(self) -> bool:
        """Whether it is the first of its stage."""
        return self.rank % self.tensor_parallel == 0

    @property
    def tensor_rank(self) -> int:
        """Within its stage."""
        return self.rank % self.tensor_parallel

    @property
    def stage(self) -> int:
        """Which pipeline stage."""
        return self.rank // self.tensor_parallel
