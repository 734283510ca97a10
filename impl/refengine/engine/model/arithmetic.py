"""Integers in float64 tensors: folding them, and attention that divides exactly.

Multiplications go by float64, where all numbers are whole and below 2**53 (`ModelSize.largest`);
what divides goes by int64.
"""

import importlib
from typing import Any

from .batching import RowGroup
from .size import FOLD, GAIN, HALF, SHARPNESS, ModelSize


class ExactArithmetic:
    """On one device."""

    def __init__(self, size: ModelSize, device: str) -> None:
        self.torch: Any = importlib.import_module("torch")
        self._device = device
        self._unit = 2.0**-size.score_bits
        self._powers = self.numbers([1 << bits for bits in range(SHARPNESS + 1)])

    def numbers(self, found: Any) -> Any:
        """As float64."""
        given = self.torch.as_tensor(found, dtype=self.torch.float64, device=self._device)
        return given.contiguous()

    def indexes(self, found: Any) -> Any:
        """As int64."""
        return self.torch.tensor(found, dtype=self.torch.int64, device=self._device)

    def fold(self, values: Any) -> Any:
        """Into -HALF … HALF; float64 in and out."""
        return self._folded(values.long())

    def average(self, queries: Any, keys: Any, values: Any, seen: Any) -> Any:
        """Values averaged by powers of two, all (heads, rows, positions, head width).

        `seen`, (rows, queries, keys), is 1.0 where a query may look, else 0.0.
        """
        scores = queries @ keys.transpose(-1, -2)
        exponents = scores.mul_(self._unit).floor_().add_(SHARPNESS // 2).clamp_(0, SHARPNESS)
        weights = self._powers[exponents.long()].mul_(seen)
        sums, totals = weights @ values, weights.sum(-1, keepdim=True)
        average = sums.mul_(GAIN).long().div_(totals.long(), rounding_mode="floor")
        return self._folded(average)

    def _folded(self, integers: Any) -> Any:
        return integers.add_(HALF).remainder_(FOLD).sub_(HALF).to(self.torch.float64)


class GroupAttention:
    """A group of rows, made ready for all layers of a step."""

    def __init__(self, exact: ExactArithmetic, group: RowGroup, block_size: int) -> None:
        self._exact = exact
        self._tokens = slice(group.first, group.last)
        self._tables = exact.indexes(group.tables)
        positions = exact.indexes(group.positions)
        self._rows, self._longest = positions.shape
        context = self._tables.shape[1] * block_size
        keys = exact.indexes(range(context))
        self._seen = exact.numbers(keys <= positions[:, :, None])
        self._places = exact.indexes(group.places)

    def attend(self, queries: Any, keys: Any, values: Any) -> Any:
        """(tokens of the group, heads * head width).

        `queries` of the whole step, (tokens, heads, head width); `keys` and `values` are the
        cache's, (blocks, heads, block_size, head width).
        """
        heads, width = queries.shape[1:]
        padded = queries.new_zeros((self._rows * self._longest, heads, width))
        padded[self._places] = queries[self._tokens]
        mine = padded.view(self._rows, self._longest, heads, width).permute(2, 0, 1, 3)
        found = self._exact.average(mine, self._gathered(keys), self._gathered(values), self._seen)
        return found.permute(1, 2, 0, 3).reshape(-1, heads * width)[self._places]

    def _gathered(self, cached: Any) -> Any:
        """(heads, rows, context, head width); in this order it takes one copy."""
        found = cached.transpose(0, 1)[:, self._tables]
        heads, rows, blocks, size, width = found.shape
        return found.reshape(heads, rows, blocks * size, width)
