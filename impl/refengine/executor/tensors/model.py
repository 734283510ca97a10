"""A small language model whose layers are split over ranks: columns first, then rows.

Each rank has a slice of every layer's inner width; a sum over ranks after each layer makes the
result whole. Weights come from a seed, so that every split computes the same function.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Reduce = Callable[[Any], Any]
"""Function that sums a tensor over the ranks of a stage, in place, and returns it."""


@dataclass(frozen=True)
class Size:
    """Size of a model. The inner width must be divisible by the number of ranks."""

    vocabulary: int = 64
    width: int = 32
    inner: int = 96
    layers: int = 2
    seed: int = 0


class SplitModel:
    """One rank's slice of the model, on its device.

    It calculates in double precision, so that the next token does not depend on the order in which
    ranks are summed.
    """

    def __init__(self, size: Size, rank: int, ranks: int, device: str, reduce: Reduce) -> None:
        if size.inner % ranks:
            raise ValueError(f"an inner width of {size.inner} cannot be split over {ranks} ranks")
        torch: Any = importlib.import_module("torch")
        self._torch, self._device, self._reduce = torch, device, reduce
        source = torch.Generator().manual_seed(size.seed)

        def weights(*shape: int) -> Any:
            return torch.randn(*shape, generator=source, dtype=torch.float64) / shape[-1] ** 0.5

        step = size.inner // ranks
        mine = slice(rank * step, (rank + 1) * step)
        self._embedding = weights(size.vocabulary, size.width).to(device)
        self._head = weights(size.vocabulary, size.width).to(device)  # else each token is its next
        self._layers = [
            (
                weights(size.inner, size.width)[mine].contiguous().to(device),
                weights(size.width, size.inner)[:, mine].contiguous().to(device),
            )
            for _ in range(size.layers)
        ]

    def next_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return, for each token, the one that follows it."""
        torch = self._torch
        with torch.inference_mode():
            hidden = self._embedding[torch.tensor(tokens, device=self._device)]
            for into, out_of in self._layers:
                inner = torch.nn.functional.gelu(hidden @ into.T)
                hidden = hidden + self._reduce(inner @ out_of.T)
            found: list[int] = (hidden @ self._head.T).argmax(-1).tolist()
        return found
