"""Stand-ins of our own for what vLLM's KV pipe takes from the rest of vLLM."""

from __future__ import annotations

from typing import Any, NoReturn

from killpoint.targets.vllm.sources import PIPE

NOTES = (
    "vllm.config: of the pipe's settings only what the pipe itself reads of them",
    "the group of a closed pipe is kept until its process ends: dropping it may abort that",
    "vllm.distributed...pynccl: absent, so that its pipe carries CPU tensors alone, by its group",
)
"""Parts that were replaced or switched off for the pipe, for reports."""


class KVTransferConfig:
    """A pipe's settings, for one rank."""

    def __init__(self, rank: int, size: int, host: str, port: int, buffer_bytes: int) -> None:
        self.kv_rank = rank
        self.kv_parallel_size = size
        self.kv_ip = host
        self.kv_port = port
        self.kv_buffer_size = buffer_bytes
        self.kv_buffer_device = "cpu"
        self.extra: dict[str, Any] = {}
        """Settings that a user of vLLM's may give beyond the fields."""

    def get_from_extra_config(self, key: str, default: Any) -> Any:
        """Return one of the extra settings."""
        return self.extra.get(key, default)


class PyNcclCommunicator:
    """Name only: it is made for CUDA tensors."""

    def __init__(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("killpoint has no stand-in for vLLM's NCCL communicator")


def modules() -> dict[str, dict[str, object]]:
    """Return every stand-in's contents, by module name."""
    packages = [PIPE.rpartition(".")[0], PIPE.rsplit(".", 2)[0]]
    config: dict[str, object] = {"__path__": [], "KVTransferConfig": KVTransferConfig}
    return {
        **{name: {"__path__": []} for name in packages},
        "vllm.config": config,
        "vllm.config.kv_transfer": {"KVTransferConfig": KVTransferConfig},
        "vllm.distributed.device_communicators.pynccl": {"PyNcclCommunicator": PyNcclCommunicator},
    }
