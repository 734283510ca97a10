"""How arrays and tensors become pickle buffers cheaply, without importing what nobody uses."""

import sys
from pickle import PickleBuffer
from typing import Any

_SMALL = 4096
Reduced = tuple[Any, ...] | str
"""What a reducer returns (pickle's own protocol)."""


def install(table: dict[type, Any]) -> None:
    """Add reducers for numpy arrays and torch tensors if the caller has imported them."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and hasattr(numpy, "ndarray"):
        table[numpy.ndarray] = _array_reducer(numpy)
    if torch is not None and hasattr(torch, "Tensor"):
        table[torch.Tensor] = _reduce_tensor


def _array_reducer(numpy: Any) -> Any:
    """A third of the time of numpy's own recipe, for plain C-ordered writable arrays."""
    ndarray = numpy.ndarray
    codes = {numpy.dtype(c): numpy.dtype(c).str for c in "?bBhHiIlLqQefdFD"}

    def reduce(array: Any) -> Reduced:
        code, flags = codes.get(array.dtype), array.flags
        if code and flags.c_contiguous and flags.writeable:
            # A small one stays in the pickle anyway: not worth asking the encoder each time.
            data = bytearray(array) if array.nbytes < _SMALL else PickleBuffer(array)
            return ndarray, (array.shape, code, data)
        return array.__reduce_ex__(5)

    return reduce


def _reduce_tensor(tensor: Any) -> Reduced:
    """A plain dense CPU tensor as one buffer; anything else torch's own way."""
    torch = sys.modules["torch"]
    plain = (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.is_leaf
        and not tensor.__dict__
    )
    if not plain:
        return tensor.__reduce_ex__(5)
    flat = tensor.detach().contiguous().reshape(-1)
    data = PickleBuffer(flat.view(torch.uint8).numpy())
    dtype = str(tensor.dtype).removeprefix("torch.")
    return rebuild_tensor, (data, dtype, tuple(tensor.shape), tensor.requires_grad)


def rebuild_tensor(data: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    """The tensor again, over `data`'s own memory."""
    import torch

    kind = getattr(torch, dtype)
    if len(data):
        tensor = torch.frombuffer(data, dtype=torch.uint8).view(kind).reshape(shape)
    else:
        tensor = torch.empty(shape, dtype=kind)
    return tensor.requires_grad_() if requires_grad else tensor
