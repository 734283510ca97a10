"""vLLM's stateless process group over torch's own store, unmodified, in all releases."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from killpoint.targets.protocol import UnsupportedByTarget
from killpoint.targets.shapes import GroupShape
from killpoint.targets.vllm.sources import GROUP, Features


class VllmGroups:
    """The group's half of the adapter. Ends are vLLM's own ``StatelessProcessGroup`` objects."""

    version: str
    features: Features

    def join(
        self,
        shape: GroupShape,
        address: tuple[str, int],
        rank: int,
        secret: bytes,
        timeout: float | None,
    ) -> Any:
        """Call ``create``; the store authenticates no peer, and has no silence but its timeout."""
        del secret
        host, port = address
        limit: dict[str, Any] = {}
        if timeout is not None:
            self._must(self.features.store_timeout, "no timeout for the making of a group")
            limit["store_timeout"] = timeout
        self._must(self.features.group, "no stateless process group")
        group: Any = sys.modules[GROUP]
        return group.StatelessProcessGroup.create(host, port, rank, shape.ranks, **limit)

    def group_send(self, end: Any, obj: Any, to: int) -> None:
        """Call ``send_obj``."""
        end.send_obj(obj, to)

    def group_receive(self, end: Any, source: int, timeout: float | None) -> Any:
        """Call ``recv_obj``, under the store's timeout: the call itself takes none."""
        with _within(end, timeout):
            return end.recv_obj(source)

    def group_broadcast(self, end: Any, obj: Any, source: int, timeout: float | None) -> Any:
        """Call ``broadcast_obj``, likewise."""
        with _within(end, timeout):
            return end.broadcast_obj(obj, source)

    def group_gather(self, end: Any, obj: Any, timeout: float | None) -> list[Any]:
        """Call ``all_gather_obj``: the store's timeout counts for each rank's object."""
        with _within(end, timeout):
            return end.all_gather_obj(obj)

    def group_barrier(self, end: Any, timeout: float | None) -> None:
        """Call ``barrier``; its own timeout and no other, where it has one."""
        if timeout is None:
            end.barrier()
            return
        self._must(self.features.barrier_timeout, "no timeout for a barrier")
        end.barrier(timeout=timeout)

    def group_leave(self, end: Any) -> None:
        """Do nothing: a group of vLLM's is left by dropping it."""

    def group_entries(self, end: Any) -> int:
        """Return the number of keys that the store holds."""
        return int(end.store.num_keys())

    def _must(self, offered: bool, lack: str) -> None:
        if not offered:
            raise UnsupportedByTarget(f"vllm {self.version} has {lack}")


@contextmanager
def _within(end: Any, timeout: float | None) -> Generator[None]:
    """Set the store's own limit for one wait, as any user of the group can set it."""
    if timeout is None:
        yield
        return
    before = end.store.timeout
    end.store.set_timeout(timedelta(seconds=max(timeout, 0.001)))
    try:
        yield
    finally:
        end.store.set_timeout(before)
