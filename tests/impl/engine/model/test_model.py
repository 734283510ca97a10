"""The model of a rank, in whatever batch, chunk or split, against the model alone."""

import threading
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.overrides import TorchFunctionMode

from refengine.engine.model import model as module
from refengine.engine.model.batching import Batch, Row
from refengine.engine.model.model import ExactModel
from refengine.engine.model.reference import reference_next_token
from refengine.engine.model.size import HALF, WEIGHT, ModelSize
from refengine.engine.model.weights import LayerWeights, Weights, weights_of

from ..serving import TINY

SIZE = ModelSize()
TEXT = [*b"The quick brown fox jumps over the lazy dog. " * 5]


def made(size: ModelSize = SIZE, blocks: int = 64, block_size: int = 4) -> ExactModel:
    return ExactModel(size, 0, 1, "cpu", lambda tensor: tensor, blocks, block_size)


def next_of(tokens: list[int], size: ModelSize = SIZE) -> int:
    return reference_next_token(tokens, size, weights_of(size))


def rows_of(name: str, tokens: list[int], table: list[int], cuts: list[int]) -> list[Row]:
    """One row for each chunk; the last is sampled."""
    edges = [0, *sorted(set(cuts) - {0, len(tokens)}), len(tokens)]
    return [
        Row(name, tuple(tokens[a:b]), a, tuple(table[: -(-b // 4)]), b == len(tokens))
        for a, b in pairwise(edges)
    ]


@pytest.mark.parametrize("cuts", [[], [1], [5, 6, 7, 100], [64, 128, 192]])
def test_chunks_change_nothing(cuts):
    model = made()
    table = [*range(63, -1, -1)]
    tokens = [model.forward(Batch((row,))) for row in rows_of("a", TEXT, table, cuts)]
    assert tokens[:-1] == [[None]] * (len(tokens) - 1)
    assert tokens[-1] == [next_of(TEXT)]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_who_is_in_the_batch_changes_nothing(data):
    """Each request in chunks and steps of its own, its blocks strewn over the cache."""
    texts = data.draw(
        st.lists(st.lists(st.integers(0, 256), min_size=1, max_size=40), min_size=1, max_size=6)
    )
    free = data.draw(st.permutations(range(64)))
    queues = []
    for number, text in enumerate(texts):
        table = [free.pop() for _ in range(-(-len(text) // 4))]
        cuts = data.draw(st.lists(st.integers(1, len(text)), max_size=4))
        queues.append(rows_of(str(number), text, table, cuts))
    model, found = made(TINY), dict[str, Any]()
    while any(queues):
        able = [queue for queue in queues if queue]
        chosen = data.draw(st.lists(st.sampled_from(range(len(able))), min_size=1, unique=True))
        rows = tuple(able[index].pop(0) for index in chosen)
        for row, token in zip(rows, model.forward(Batch(rows)), strict=True):
            assert (token is None) == (not row.sample)
            found[row.request_id] = token
    assert found == {str(n): next_of(text, TINY) for n, text in enumerate(texts)}


class Together:
    """Ranks in threads: a sum waits for all of them."""

    def __init__(self, ranks: int) -> None:
        self.parts: list[Any] = [None] * ranks
        self.all = threading.Barrier(ranks, timeout=20)

    def reduce(self, rank: int) -> Any:
        def reduce(tensor: Any) -> Any:
            self.parts[rank] = tensor
            self.all.wait()
            whole = sum(reversed(self.parts))
            self.all.wait()
            return whole

        return reduce


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_together_compute_what_one_does(ranks):
    together, found = Together(ranks), dict[int, Any]()

    def run(rank: int) -> None:
        model = ExactModel(SIZE, rank, ranks, "cpu", together.reduce(rank), 64, 4)
        batches = [Batch((row,)) for row in rows_of("a", TEXT[:90], [*range(64)], [30, 89])]
        found[rank] = [model.forward(batch) for batch in batches][-1]

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == {rank: [next_of(TEXT[:90])] for rank in range(ranks)}


def test_a_rank_has_its_share_of_heads_and_inner_width_and_no_more():
    model = ExactModel(SIZE, 1, 2, "cpu", lambda tensor: tensor, 4, 4)
    weights = weights_of(SIZE)
    assert model.cache.shape == (5, 2, 2, 2, 4, 8)
    for layer, whole in zip(model._layers, weights.layers, strict=True):
        assert layer.queries_keys_values.shape == (32, 48)
        for number, part in enumerate((whole.query, whole.key, whole.value)):
            mine = layer.queries_keys_values[:, 16 * number : 16 * number + 16]
            assert mine.tolist() == part[16:].T.tolist()
        assert layer.out.tolist() == whole.out[:, 16:].T.tolist()
        assert layer.into.tolist() == whole.into[32:].T.tolist()
        assert layer.out_of.tolist() == whole.out_of[:, 32:].T.tolist()


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_whose_sum_is_missing_shows(ranks):
    """Else a reduction that does nothing would look like one that works."""
    model = ExactModel(SIZE, 0, ranks, "cpu", lambda tensor: tensor, 64, 4)
    (row,) = rows_of("a", TEXT, [*range(64)], [])
    assert model.forward(Batch((row,))) != [next_of(TEXT)]


def test_a_split_that_is_none_is_refused():
    with pytest.raises(ValueError, match="over 3 ranks"):
        ExactModel(SIZE, 0, 3, "cpu", lambda tensor: tensor, 4, 4)
    with pytest.raises(ValueError, match=r"2\*\*53"):
        ExactModel(SIZE, 0, 1, "cpu", lambda tensor: tensor, 1 << 26, 1 << 10)


def test_a_dummy_step_and_one_without_rows_touch_no_block():
    model = made()
    (row,) = rows_of("a", TEXT, [*range(64)], [])
    model.forward(Batch((row,)))
    before = model.cache.clone()
    model.dummy()
    assert model.forward(Batch()) == []
    assert torch.equal(model.cache[:-1], before[:-1])
    assert not torch.equal(model.cache[-1], before[-1])
    assert model.cache.shape == (65, 2, 2, 4, 4, 8)


class TestBlocks:
    def test_those_of_one_model_serve_another(self):
        one, other = made(), made()
        first, last = rows_of("a", TEXT, [*range(64)], [len(TEXT) - 1])
        one.forward(Batch((first,)))
        table = [*reversed(first.table)]
        other.put_blocks(table, one.take_blocks(first.table))
        last = Row("a", last.tokens, last.start, (*table, *last.table[len(table) :]), True)
        assert other.forward(Batch((last,))) == [next_of(TEXT)]

    def test_what_is_taken_is_a_copy(self):
        model = made()
        (block,) = model.take_blocks([3])
        assert block.shape == (2, 2, 4, 4, 8)
        assert block.is_contiguous()
        with torch.inference_mode():
            block += 1
        assert not model.cache.any()

    @pytest.mark.parametrize("wrong", ["count", "shape", "dtype"])
    def test_what_does_not_fit_is_refused(self, wrong):
        model = made()
        blocks = [block + 1 for block in model.take_blocks([0, 1])]
        if wrong == "count":
            blocks.pop()
        else:
            blocks[1] = blocks[1][:1] if wrong == "shape" else blocks[1].float()
        with pytest.raises(ValueError, match="KV blocks came for 2"):
            model.put_blocks([0, 1], blocks)
        assert not model.cache.any()

    def test_none_are_none(self):
        model = made()
        model.put_blocks([], [])
        assert model.take_blocks([]) == []


class Largest(TorchFunctionMode):
    """The largest value that any operation gives, and whether all were whole."""

    def __init__(self) -> None:
        super().__init__()
        self.found, self.whole = 0, True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            if isinstance(result, torch.Tensor) and result.numel() and result.dtype != torch.bool:
                self.found = max(self.found, int(result.abs().max()))
                if func.__name__ != "mul_":  # a score is divided by a power of two, then floored
                    self.whole &= bool((result == result.floor()).all())
        return result


@pytest.mark.parametrize("extreme", [False, True])
def test_no_value_is_larger_than_the_largest_nor_broken(monkeypatch, extreme):
    size = ModelSize(width=8, heads=1, inner=64, layers=2, vocabulary=5)
    if extreme:

        def all_at_most(_: ModelSize) -> Weights:
            drawn = weights_of(size)

            def most(matrix: Any, limit: int) -> Any:
                return matrix * 0 + limit

            layers = [
                LayerWeights(*(most(getattr(layer, n), WEIGHT) for n in layer.__dataclass_fields__))
                for layer in drawn.layers
            ]
            parts = [most(part, HALF) for part in (drawn.tokens, drawn.near, drawn.far)]
            return Weights(*parts, tuple(layers), most(drawn.head, HALF))

        monkeypatch.setattr(module, "weights_of", all_at_most)
    model = made(size, 64, 4)
    with Largest() as watch:
        model.forward(Batch((Row("a", (1,) * 255, 0, tuple(range(64)), True),)))
    assert watch.whole
    assert 1000 < watch.found <= size.largest(256)
    assert watch.found < 2**53


class OnOneDevice(TorchFunctionMode):
    """Which devices tensors are asked for on, and which types are multiplied as matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: set[Any] = set()
        self.multiplied: set[Any] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor, torch.zeros, torch.arange, torch.ones):
            self.devices.add(kwargs.get("device", "none"))
        if "matmul" in func.__name__:
            self.multiplied |= {each.dtype for each in args}
        return func(*args, **kwargs)


def test_every_tensor_is_made_on_the_device_and_only_float64_is_multiplied():
    """A GPU multiplies no matrices of int64, and none that lie elsewhere."""
    with OnOneDevice() as watch:
        model = made(TINY)
        first, *more = rows_of("a", TEXT[:40], [*range(10)], [20, 39])
        model.forward(Batch((first, Row("b", (1,), 0, (20,), True))))
        model.put_blocks([12, 13], model.take_blocks([0, 1]))
        for row in more:
            model.forward(Batch((row,)))
        model.dummy()
    assert watch.devices == {"cpu"}
    assert watch.multiplied == {torch.float64}
