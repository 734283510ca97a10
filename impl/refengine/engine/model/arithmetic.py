"""Exact arithmetic: integers in float64 tensors, folded, with attention that divides exactly.

Multiplications are in float64, where all numbers are whole and below 2**53 (`ModelSize.largest`);
divisions are in int64.
"""

import importlib
from typing import Any

from .batching import RowGroup
from .size import FOLD, GAIN, HALF, SHARPNESS, ModelSize


class ExactArithmetic:
    """Exact arithmetic on one device."""

    def __init__(self, size: ModelSize, device: str) -> None:
        self.torch: Any = importlib.import_module("torch")
        self._device = device
        self._unit = 2.0**-size.score_bits
        self._powers = self.numbers([1 << bits for bits in range(SHARPNESS + 1)])

    def numbers(self, found: Any) -> Any:
        """Return a float64 tensor on the device."""
        given = self.torch.as_tensor(found, dtype=self.torch.float64, device=self._device)
        return given.contiguous()

    def indexes(self, found: Any) -> Any:
        """Return an int64 tensor on the device."""
        return self.torch.tensor(found, dtype=self.torch.int64, device=self._device)

    def fold(self, values: Any) -> Any:
        """Reduce values into -HALF … HALF, modulo FOLD; float64 in and out."""
        return self._folded(values.long())

    def average(self, queries: Any, keys: Any, values: Any, seen: Any) -> Any:
        """Return the values' averages weighted by powers of two.

        All are (heads, rows, positions, head width); `seen`, (rows, queries, keys), is 1.0 where a
        query may attend, else 0.0.
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
    """Attention of a group of rows, prepared for all layers of a step."""

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
        """Return the group's attention, (tokens of the group, heads * head width).

        `queries` are of the whole step, (tokens, heads, head width); `keys` and `values` are the
        cache's, (blocks, heads, block_size, head width).
        """
        heads, width = queries.shape[1:]
        padded = queries.new_zeros((self._rows * self._longest, heads, width))
        padded[self._places] = queries[self._tokens]
        mine = padded.view(self._rows, self._longest, heads, width).permute(2, 0, 1, 3)
        found = self._exact.average(mine, self._gathered(keys), self._gathered(values), self._seen)
        return found.permute(1, 2, 0, 3).reshape(-1, heads * width)[self._places]

    def _gathered(self, cached: Any) -> Any:
        """Return the group's cached entries, (heads, rows, context, head width), by one copy."""
        found = cached.transpose(0, 1)[:, self._tables]
        heads, rows, blocks, size, width = found.shape
        return found.reshape(heads, rows, blocks * size, width)
