"""From tensors to bytes and back, bit by bit (SPEC K1)."""

import ctypes
from typing import Any, cast

import torch

from .errors import TensorRefused
from .protocol import DTYPE_CODES, MAX_DIMS, Metadata

_TORCH: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in DTYPE_CODES if hasattr(torch, name)
}
_NAMES = {dtype: name for name, dtype in _TORCH.items()}


def describe(tensor: torch.Tensor) -> Metadata:
    """Return a tensor's metadata; TensorRefused if it cannot be sent."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise TensorRefused(f"only dense tensors can be sent, not {tensor.layout}")
    if tensor.dtype not in _NAMES:
        raise TensorRefused(f"no tensors of {tensor.dtype} can be sent")
    if tensor.dim() > MAX_DIMS:
        raise TensorRefused(f"{tensor.dim()} dimensions, of at most {MAX_DIMS}")
    if tensor.device.type not in ("cpu", "cuda"):
        raise TensorRefused(f"a tensor on {tensor.device.type} has no bytes to send")
    return Metadata(_NAMES[tensor.dtype], tuple(tensor.shape))


def bytes_of(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements; 0 if it has none to send."""
    try:
        return describe(tensor).nbytes
    except TensorRefused:
        return 0


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor without gradient history, with conjugation and sign carried out."""
    return tensor.detach().resolve_conj().resolve_neg()


def copy_into(tensor: torch.Tensor, memory: memoryview) -> None:
    """Copy a tensor's elements, one after the other, whatever its layout and device."""
    plain = resolved(tensor)
    if plain.device.type == "cpu" and plain.is_contiguous():
        # Unlike a slice's assignment, this lets other threads run meanwhile.
        ctypes.memmove(_address(memory), plain.data_ptr(), len(memory))
        return
    within_memory(Metadata(_NAMES[plain.dtype], tuple(plain.shape)), memory).copy_(plain)


def within_memory(metadata: Metadata, memory: memoryview) -> torch.Tensor:
    """Return a tensor whose elements are these bytes; it keeps the memory alive."""
    dtype = _TORCH.get(metadata.dtype)
    if dtype is None:
        raise TensorRefused(f"this torch has no {metadata.dtype}")
    if not len(memory):
        return torch.empty(metadata.shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype).view(metadata.shape)


def _address(memory: memoryview) -> int:
    first = cast("Any", ctypes.c_char).from_buffer(memory)
    return ctypes.addressof(first)
