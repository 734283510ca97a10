"""Tensors of a workload: every dtype, shape and layout, each with bytes of its own.

They are made from (seed, seq, parameters) alone, so a scenario replays with the same bytes.
"""

from __future__ import annotations

import hashlib
import math
import re
from pathlib import Path
from typing import Any

from killpoint.runner.payload import pattern
from killpoint.scenario import Tensor

_DIGITS = 16
_PEAKS = re.compile(r"^(VmPeak|VmHWM|VmRSS):\s+(\d+) kB$", re.M)


def build(tensor: Tensor, seed: int, seq: int, device: str) -> Any:
    """Build one tensor of a scenario: a ``torch.Tensor``, or None."""
    import torch

    if tensor.form == "none":
        return None
    dtype = getattr(torch, tensor.dtype)
    if tensor.form == "meta":
        return torch.empty(tensor.shape, dtype=dtype, device="meta")
    return _laid_out(tensor, dtype, seed, seq, tensor.device or device)


def _laid_out(tensor: Tensor, dtype: Any, seed: int, seq: int, device: str) -> Any:
    shape = list(tensor.shape)

    def filled(extents: list[int]) -> Any:
        return _filled(extents, dtype, seed, seq, device)

    if tensor.layout == "transposed":
        found = filled(shape[::-1])
        return found.permute(*reversed(range(len(shape)))) if shape else found
    if tensor.layout == "stepped" and shape:
        return filled([*shape[:-1], 2 * shape[-1]])[..., ::2]
    if tensor.layout == "expanded" and shape and shape[0]:
        return filled([1, *shape[1:]]).expand(shape)
    if tensor.layout == "offset":
        return filled([math.prod(shape) + 3])[3:].view(shape)
    found = filled(shape)
    if tensor.layout == "conjugate" and found.is_complex():
        return found.conj()
    if tensor.layout == "grad" and (found.is_floating_point() or found.is_complex()):
        return found.requires_grad_()
    return found


def _filled(shape: list[int], dtype: Any, seed: int, seq: int, device: str) -> Any:
    import torch

    count = math.prod(shape)
    if not count:
        return torch.empty(shape, dtype=dtype, device=device)
    raw = torch.frombuffer(pattern(seed, seq, count * dtype.itemsize), dtype=torch.uint8)
    if dtype is torch.bool:
        raw = raw & 1
    return raw.view(dtype).reshape(shape).to(device)


def about(tensor: Any) -> dict[str, Any]:
    """Return a tensor's log entry: dtype, shape, device, size in bytes, and digest."""
    if tensor is None:
        return {"dtype": "none", "shape": [], "bytes": 0, "digest": "none"}
    dtype = str(tensor.dtype).removeprefix("torch.")
    found = {"dtype": dtype, "shape": list(tensor.shape), "device": tensor.device.type}
    return found | {"bytes": tensor.numel() * tensor.element_size(), "digest": digest(tensor)}


def digest(tensor: Any) -> str:
    """Return a fingerprint of the dtype, the shape, and the bits of the elements in order."""
    import torch

    if tensor.device.type == "meta":
        return "no bytes"
    state = hashlib.sha1(usedforsecurity=False)
    state.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    if tensor.numel():
        whole = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
        # One element is contiguous whatever its stride, which a view as bytes does not accept.
        flat = whole.as_strided((whole.numel(),), (1,))
        state.update(flat.view(torch.uint8).numpy().data)
    return state.hexdigest()[:_DIGITS]


def overwrite(tensor: Any) -> bool:
    """Change every element in place; return whether there was one."""
    import torch

    if tensor is None or tensor.device.type == "meta" or not tensor.numel():
        return False
    raw = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    raw.set_(tensor.untyped_storage())
    raw.bitwise_xor_(1 if tensor.dtype is torch.bool else 0xFF)
    return True


def forget_peak() -> None:
    """Reset the kernel's peak of this process's memory."""
    Path("/proc/self/clear_refs").write_text("5")


def peaks() -> dict[str, int]:
    """Return this process's memory in bytes: in use now, the peak, the peak of address space."""
    found = dict(_PEAKS.findall(Path("/proc/self/status").read_text()))
    names = {"rss": "VmRSS", "peak": "VmHWM", "space": "VmPeak"}
    return {word: 1024 * int(found.get(name, 0)) for word, name in names.items()}
