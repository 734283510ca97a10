"""Snapshots on a GPU, and the order of streams: common to both CUDA transports (SPEC K5)."""

from typing import Any

import torch

from ..errors import TensorRefused
from ..protocol import Metadata
from ..tensors import bytes_of, describe, resolved

_cuda: Any = torch.cuda


class DeviceSnapshot:
    """Copy of a tensor's elements, made on the caller's current stream, with its event."""

    def __init__(self, tensor: torch.Tensor, device: torch.device, most: int) -> None:
        self.metadata: Metadata = describe(tensor)
        if self.metadata.nbytes > most:
            raise TensorRefused(f"{self.metadata.nbytes} bytes, of at most {most}")
        with _cuda.device(device):
            stream = _cuda.current_stream()
            plain = resolved(tensor).to(device)
            self.copy: torch.Tensor | None = plain.clone(memory_format=torch.contiguous_format)
            plain.record_stream(stream)
            self._copied = _cuda.Event()
            self._copied.record(stream)

    def settled(self) -> torch.Tensor:
        """Return the copy, once it is made; called by the sender's thread."""
        self._copied.synchronize()
        assert self.copy is not None
        return self.copy

    def free(self) -> None:
        """Give the memory back."""
        self.copy = None


class DeviceSendTransport:
    """Common part of the sending halves of both transports."""

    def __init__(self, device: str, most: int) -> None:
        self._device, self._most = torch.device(device), most

    def nbytes(self, tensor: Any) -> int:
        """Return the bytes of a tensor's elements; 0 if the snapshot will refuse it."""
        nbytes = 0 if tensor is None else bytes_of(tensor)
        return nbytes if nbytes <= self._most else 0


def synchronized(device: torch.device, tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor once any stream may use it."""
    _cuda.current_stream(device).synchronize()
    return tensor


def viewed(flat: torch.Tensor, metadata: Metadata) -> torch.Tensor:
    """Return bytes as elements of that type and shape."""
    dtype: torch.dtype = getattr(torch, metadata.dtype)
    return flat.view(dtype).view(metadata.shape)
