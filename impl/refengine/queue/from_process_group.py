"""Queues that the members of a process group make together: torch's group or ours (SPEC 3).

Which members share memory is measured, not assumed: they compare the identities of their kernel,
their /dev/shm and their folder for sockets.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from .handshake import Handle


class GroupAdapter(Protocol):
    """The methods that are needed of a group; `refengine.group.Group` has them."""

    @property
    def rank(self) -> int:
        """Rank of this process."""
        ...

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        ...

    def all_gather_obj(self, obj: Any) -> list[Any]:
        """Return every rank's object, in rank order."""
        ...

    def broadcast_obj(self, obj: Any, src: int) -> Any:
        """Return the object of rank `src`."""
        ...


def members_of(group: Any) -> GroupAdapter:
    """Return the group itself, or torch's `ProcessGroup` behind the same few methods."""
    if hasattr(group, "all_gather_obj"):
        return cast("GroupAdapter", group)
    return _TorchMembers(group)


class _TorchMembers:
    def __init__(self, group: Any) -> None:
        import torch.distributed

        self._dist: Any = torch.distributed
        self._group = group
        self.rank: int = self._dist.get_rank(group)
        self.world_size: int = self._dist.get_world_size(group)

    def all_gather_obj(self, obj: Any) -> list[Any]:
        found: list[Any] = [None] * self.world_size
        self._dist.all_gather_object(found, obj, group=self._group)
        return found

    def broadcast_obj(self, obj: Any, src: int) -> Any:
        carried = [obj]
        source = self._dist.get_global_rank(self._group, src)
        self._dist.broadcast_object_list(carried, src=source, group=self._group)
        return carried[0]


@dataclass(frozen=True)
class Node:
    """Identities that two processes must have in common to share a ring."""

    kernel: str
    """Id of the boot: the same for every process of a machine, in any container."""
    memory: tuple[int, int]
    """Device and inode of /dev/shm."""
    folder: tuple[int, int]
    """Device and inode of the folder that sockets lie in."""
    pids: int
    """Inode of the pid namespace: peers are watched by their pids."""

    @classmethod
    def here(cls) -> "Node":
        """Return the node of the calling process."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        pids = Path("/proc/self/ns/pid").stat().st_ino
        return cls(
            boot, _device_and_inode("/dev/shm"), _device_and_inode(tempfile.gettempdir()), pids
        )


@dataclass(frozen=True)
class Topology:
    """Local and remote readers of a group, for one writer."""

    local: list[int]
    """Reader ranks that share the writer's node."""
    readers: int
    elsewhere: bool
    """True if some reader runs on another machine."""


def plan_topology(nodes: Sequence[Node], writer: int) -> Topology:
    """Return the topology: readers are all ranks but the writer's, in order, numbered from 0."""
    mine = nodes[writer]
    others = [node for rank, node in enumerate(nodes) if rank != writer]
    local = [index for index, node in enumerate(others) if node == mine]
    return Topology(local, len(others), any(node.kernel != mine.kernel for node in others))


def reader_rank_of(rank: int, writer: int) -> int:
    """Return a member's rank as a reader of the queue that `writer` writes."""
    return rank if rank < writer else rank - 1


def gather_to(members: GroupAdapter, answer: Handle | Exception, at: int) -> list[Handle]:
    """Return every rank's handle at rank `at`; an empty list elsewhere.

    Raise, at every rank, the first error that a rank has in place of its handle.
    """
    handles: list[Handle] = []
    for found in members.all_gather_obj(answer):
        if isinstance(found, Exception):
            raise found
        handles.append(found)
    return handles if members.rank == at else []


def _device_and_inode(path: str) -> tuple[int, int]:
    found = Path(path).stat()
    return found.st_dev, found.st_ino
