"""vLLM's KV pipe on CPU tensors, unmodified, in all releases that have it."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from killpoint.targets.protocol import UnsupportedByTarget
from killpoint.targets.shapes import PipeShape
from killpoint.targets.vllm.loading.pipe_stubs import KVTransferConfig
from killpoint.targets.vllm.sources import PIPE, Features

_KEPT: list[Any] = []
"""Groups of closed pipes. Dropping a group aborts its process now and then, since vLLM closes the
socket that its store still listens at. That would hide how the calls themselves end."""


class VllmPipes:
    """The pipe's half of the adapter. Ends are vLLM's own ``PyNcclPipe`` objects."""

    version: str
    features: Features

    def pipe_make(
        self,
        rank: int,
        shape: PipeShape,
        host: str,
        port: int,
        secret: bytes,
        timeout: float | None,
    ) -> Any:
        """Make the pipe over a group of its own, which has no use for a secret."""
        del secret
        if shape.device != "cpu":
            self._cannot("no CUDA tensors without NCCL, which is not served here")
        if shape.transport:
            self._cannot(f"no transport {shape.transport!r}")
        config = KVTransferConfig(rank, shape.size, host, port, shape.buffer_bytes)
        if timeout is not None:
            self._cannot("no timeout for the making of a pipe")
        pipe: Any = sys.modules[PIPE]
        return pipe.PyNcclPipe(rank, config)

    def pipe_send(self, end: Any, tensor: Any | None, timeout: float | None) -> None:
        """Call ``send_tensor``."""
        self._timeless(timeout)
        end.send_tensor(tensor)

    def pipe_recv(self, end: Any, timeout: float | None) -> Any:
        """Call ``recv_tensor``."""
        self._timeless(timeout)
        return end.recv_tensor()

    def pipe_buffered(self, end: Any) -> int:
        """Return ``buffer_size``."""
        return int(end.buffer_size)

    def pipe_close(self, end: Any, timeout: float | None) -> None:
        """Call ``close``, which waits for what it was given to send. Its group is kept."""
        self._timeless(timeout)
        _KEPT.append(end.group)
        end.close()

    def pipe_forge(self, end: Any, lie: str) -> None:
        """Send what the pipe would send of a tensor, by its own group, with a lie in it."""
        import torch

        lies: dict[str, dict[str, Any]] = {
            "dtype": {"dtype": "no dtype", "shape": torch.Size([4])},
            "negative": {"dtype": torch.float32, "shape": (-4, 4)},
            "dimensions": {"dtype": torch.float32, "shape": (1,) * 200},
            "overflow": {"dtype": torch.float32, "shape": (1 << 40, 1 << 40)},
            "huge": {"dtype": torch.float32, "shape": (1 << 42,)},
            "mismatch": {"dtype": torch.float32, "shape": torch.Size([64])},
        }
        if lie not in lies:
            self._cannot(f"no lie {lie!r} that its wire could express")
        end._send_metadata(lies[lie])
        if lie == "mismatch":
            end.device_send_func(torch.ones(1), end.target_rank_for_send)

    def _load_pipe(self) -> None:
        """Import the pipe; the queue and the group are there."""
        if self.features.pipe:
            importlib.import_module(PIPE)

    def _timeless(self, timeout: float | None) -> None:
        if timeout is not None:
            self._cannot("no timeouts in a pipe's calls")

    def _cannot(self, lack: str) -> None:
        raise UnsupportedByTarget(f"vllm {self.version} has {lack}")
