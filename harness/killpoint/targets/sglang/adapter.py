"""SGLang's message queue as a target: vLLM's adapter, with the differences of SGLang."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from killpoint.targets.disclaimer import Disclaimer
from killpoint.targets.protocol import Capability, UnsupportedByTarget
from killpoint.targets.sglang import stubs
from killpoint.targets.shapes import QueueShape
from killpoint.targets.vllm.adapter import VllmTarget
from killpoint.targets.vllm.loading.module_loader import Contents
from killpoint.targets.vllm.sources import Sources


class SglangTarget(VllmTarget):
    """One copy of SGLang's ``shm_broadcast``, unmodified, with local and remote readers.

    No release has deadlines, or a way to end a call that waits. A handle carries the ring itself,
    and the host and port that remote readers connect to.
    """

    name = "sglang"
    _replaced = stubs.NOTES

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources)
        self.capabilities |= frozenset[Capability](("remote", "wire"))
        # It waits in loops that never yield through a global of its module's: no seam to give.
        self.capabilities -= frozenset[Capability](("sim_memory", "sim_sockets", "clock"))

    @property
    def disclaimers(self) -> tuple[Disclaimer, ...]:
        """Promises that its maintainers have disclaimed."""
        where = "sgl-project/sglang#5752, an answer of its maintainers"
        says = "nodes are assumed to talk inside a cluster that is trusted"
        return (Disclaimer(("S3", "S4"), where, says),)

    def make(self, shape: QueueShape) -> Any:
        """Make the writer's end. The release decides where it listens, given ``shape.host``."""
        if shape.max_buffers is not None or shape.max_buffer_bytes is not None:
            raise UnsupportedByTarget("SGLang's format limits cannot be set")
        end = self.module.MessageQueue(
            n_reader=shape.readers,
            n_local_reader=shape.readers - shape.remote,
            max_chunk_bytes=shape.chunk_bytes,
            max_chunks=shape.chunks,
            connect_ip=shape.host,
        )
        self._watch(end)
        return end

    def addresses(self, handle: Any) -> list[str]:
        """Return the address that remote readers connect to, if there is one."""
        if handle.remote_subscribe_port is None:
            return []
        return [_address(handle.connect_ip, handle.remote_subscribe_port)]

    def rerouted(self, handle: Any, table: dict[str, str]) -> Any:
        """Return the handle with another host and port for remote readers if the table has one."""
        for address in self.addresses(handle):
            host, _, port = table.get(address, address).rpartition(":")
            return replace(handle, connect_ip=host.strip("[]"), remote_subscribe_port=int(port))
        return handle

    def secrets(self, handle: Any) -> list[bytes]:
        """Return none: every peer that reaches the port may read."""
        del handle
        return []

    def _stood_in(self) -> Contents:
        return stubs.modules()


def _address(host: str, port: int) -> str:
    return stubs.tcp_address(host, port).removeprefix("tcp://")
