"""Queues made together by the members of a process group, torch's or ours (SPEC 3).

Which members share memory is found out, not assumed: they compare what identifies their kernel,
their /dev/shm and their folder for sockets.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from .handle import Handle


class Members(Protocol):
    """What is needed of a group; `refengine.group.Group` is one."""

    @property
    def rank(self) -> int:
        """This process's."""
        ...

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        ...

    def all_gather_obj(self, obj: Any) -> list[Any]:
        """Every rank's object, in rank order."""
        ...

    def broadcast_obj(self, obj: Any, src: int) -> Any:
        """The object of rank `src`."""
        ...


def members_of(group: Any) -> Members:
    """The group itself, or torch's `ProcessGroup` behind the same few methods."""
    if hasattr(group, "all_gather_obj"):
        return cast("Members", group)
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
    """What two processes must have in common to share a ring."""

    kernel: str
    """The boot's id: the same on every process of a machine, whatever container it is in."""
    memory: tuple[int, int]
    """Device and inode of /dev/shm."""
    folder: tuple[int, int]
    """The same of the folder that sockets lie in."""
    pids: int
    """The pid namespace: peers are watched by their pids."""

    @classmethod
    def here(cls) -> "Node":
        """The calling process's."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        pids = Path("/proc/self/ns/pid").stat().st_ino
        return cls(boot, _place("/dev/shm"), _place(tempfile.gettempdir()), pids)


@dataclass(frozen=True)
class Plan:
    """Who of a group reads locally, for one writer."""

    local: list[int]
    """Reader ranks that share the writer's node."""
    readers: int
    elsewhere: bool
    """Whether some reader runs on another machine."""


def planned(nodes: Sequence[Node], writer: int) -> Plan:
    """Readers are all ranks but the writer's, in order, numbered from 0."""
    mine = nodes[writer]
    others = [node for rank, node in enumerate(nodes) if rank != writer]
    local = [index for index, node in enumerate(others) if node == mine]
    return Plan(local, len(others), any(node.kernel != mine.kernel for node in others))


def reader_rank_of(rank: int, writer: int) -> int:
    """A member's rank as a reader of the queue that `writer` writes."""
    return rank if rank < writer else rank - 1


def gathered(members: Members, handle: Handle, at: int) -> list[Handle]:
    """Everybody's handle at one rank; nothing elsewhere."""
    handles = members.all_gather_obj(handle)
    return handles if members.rank == at else []


def _place(path: str) -> tuple[int, int]:
    found = Path(path).stat()
    return found.st_dev, found.st_ino
