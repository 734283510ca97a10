"""One rank's slice of the model, with its own paged KV cache, exact whatever is batched with what.

Values are integers in float64 that stay below 2**53 (`ModelSize.largest`), so that no order of
summation, batch, padding, chunk or split over ranks can change one. `reference` computes the same
in few lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...executor.tensors.model import Reduce
from .arithmetic import ExactArithmetic, GroupAttention
from .batching import Batch, Row, build_batch_layout
from .size import NEAR, ModelSize
from .weights import LayerWeights, weights_of


@dataclass(frozen=True)
class _Layer:
    """Weights of one rank; each is (inputs, outputs)."""

    queries_keys_values: Any
    out: Any
    into: Any
    out_of: Any


class ExactModel:
    """Slice of rank `rank` of `ranks`, on its device. `reduce` sums a tensor over the ranks.

    `cache` is (blocks + 1, layers, keys and values, heads here, block_size, head width), float64;
    the last block is scratch, for steps without a request. Raises ValueError for a size that
    cannot be split, or is not exact with so many positions.
    """

    def __init__(
        self,
        size: ModelSize,
        rank: int,
        ranks: int,
        device: str,
        reduce: Reduce,
        blocks: int,
        block_size: int,
    ) -> None:
        size.check_ranks(ranks)
        size.check_exact(blocks * block_size)
        self._exact = exact = ExactArithmetic(size, device)
        self._size, self._reduce, self._block_size = size, reduce, block_size
        self._heads, self._scratch = size.heads // ranks, blocks
        shape = (blocks + 1, size.layers, 2, self._heads, block_size, size.head_width)
        self.cache = exact.torch.zeros(shape, dtype=exact.torch.float64, device=device)
        weights = weights_of(size)
        self._tokens = exact.numbers(weights.tokens)
        self._near, self._far = exact.numbers(weights.near), exact.numbers(weights.far)
        self._head = exact.numbers(weights.head.T)
        self._layers = [self._layer(layer, rank, ranks) for layer in weights.layers]
        self._order = exact.numbers(list(range(size.vocabulary)))

    def forward(self, batch: Batch) -> list[int | None]:
        """Return the next token of each row that asks for it, by row."""
        found: list[int | None] = [None] * len(batch.rows)
        if batch.rows:
            with self._exact.torch.inference_mode():
                for row, token in self._step(batch.rows):
                    found[row] = token
        return found

    def dummy(self) -> None:
        """Do a step without a request, which writes only the scratch block."""
        self.forward(Batch((Row("", (0,), 0, (self._scratch,), False),)))

    def take_blocks(self, table: Sequence[int]) -> list[Any]:
        """Return copies of these blocks, (layers, 2, heads here, block_size, head width) each."""
        with self._exact.torch.inference_mode():
            return list(self.cache[self._exact.indexes(table)].unbind())

    def put_blocks(self, table: Sequence[int], blocks: Sequence[Any]) -> None:
        """Write blocks of another replica's `take_blocks`. Raises ValueError for wrong shapes."""
        torch, shape = self._exact.torch, tuple(self.cache.shape[1:])
        wrong = {(tuple(block.shape), block.dtype) for block in blocks} - {(shape, torch.float64)}
        if wrong or len(blocks) != len(table):
            raise ValueError(
                f"{len(blocks)} KV blocks came for {len(table)} of {shape} float64: {wrong or ''}"
            )
        if blocks:
            with torch.inference_mode():
                self.cache[self._exact.indexes(table)] = torch.stack(list(blocks))

    def _step(self, rows: Sequence[Row]) -> list[tuple[int, int]]:
        """Return (row, token) of the rows that ask for one."""
        exact, layout = self._exact, build_batch_layout(rows, self._block_size)
        where = exact.indexes(layout.blocks), exact.indexes(layout.offsets)
        groups = [GroupAttention(exact, group, self._block_size) for group in layout.groups]
        hidden = self._embedded(layout.tokens, layout.positions)
        for number, layer in enumerate(self._layers):
            heads = self._attended(hidden @ layer.queries_keys_values, number, where, groups)
            hidden = exact.fold(hidden + self._reduce(heads @ layer.out))
            inner = exact.fold(hidden @ layer.into).clamp_(min=0)
            hidden = exact.fold(hidden + self._reduce(inner @ layer.out_of))
        if not layout.sampled:
            return []
        logits = hidden[exact.indexes(layout.last_tokens)] @ self._head
        unique = logits.mul_(self._size.vocabulary).sub_(self._order)
        return list(zip(layout.sampled, unique.argmax(-1).tolist(), strict=True))

    def _embedded(self, tokens: list[int], positions: list[int]) -> Any:
        exact = self._exact
        near = exact.indexes([position % NEAR for position in positions])
        far = exact.indexes([position // NEAR % NEAR for position in positions])
        return exact.fold(self._tokens[exact.indexes(tokens)] + self._near[near] + self._far[far])

    def _attended(
        self, projected: Any, number: int, where: tuple[Any, Any], groups: list[GroupAttention]
    ) -> Any:
        """Return (tokens, heads here * head width); cache the tokens' keys and values."""
        split = self._exact.fold(projected).view(-1, 3, self._heads, self._size.head_width)
        queries, new_keys, new_values = split.unbind(1)
        keys, values = self.cache[:, number].unbind(1)
        blocks, offsets = where
        keys[blocks, :, offsets] = new_keys
        values[blocks, :, offsets] = new_values
        return self._exact.torch.cat([group.attend(queries, keys, values) for group in groups])

    def _layer(self, layer: LayerWeights, rank: int, ranks: int) -> _Layer:
        wide, inner = self._size.width // ranks, self._size.inner // ranks
        heads = slice(rank * wide, (rank + 1) * wide)
        inside = slice(rank * inner, (rank + 1) * inner)
        numbers = self._exact.numbers
        parts = [numbers(part[heads].T) for part in (layer.query, layer.key, layer.value)]
        return _Layer(
            self._exact.torch.cat(parts, 1),
            numbers(layer.out[:, heads].T),
            numbers(layer.into[inside].T),
            numbers(layer.out_of[:, inside].T),
        )
