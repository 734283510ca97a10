"""Sizes that are refused, and the largest value that a model can come to."""

import math

import pytest

from refengine.engine.model.size import EXACT_BELOW, ModelSize
from refengine.engine.settings import EngineSettings


def test_sizes_as_they_are_if_nobody_says_otherwise():
    assert ModelSize() == ModelSize(257, 32, 4, 64, 2, 0)
    assert ModelSize().head_width == 8
    settings = EngineSettings()
    assert (settings.blocks, settings.block_size, settings.most_tokens) == (256, 16, 4096)
    assert (settings.max_running, settings.max_step_tokens, settings.max_waiting) == (32, 256, 1024)
    assert (settings.tensor_parallel, settings.data_parallel, settings.prefill) == (1, 1, 0)
    times = settings.start_timeout, settings.step_timeout, settings.kv_lease
    assert times == (120.0, 10.0, 5.0)
    assert (settings.device, settings.retries, settings.restart) == ("cpu", 3, True)


@pytest.mark.parametrize(
    "given",
    [
        {"vocabulary": 1},
        {"width": 0},
        {"heads": 0},
        {"inner": 0},
        {"layers": 0},
        {"width": 30},
    ],
)
def test_what_is_no_model_is_refused(given: dict[str, int]):
    with pytest.raises(ValueError, match=r"size|heads"):
        ModelSize(**given)


@pytest.mark.parametrize(
    "given",
    [
        {name: 0}
        for name in ("tensor_parallel", "data_parallel", "blocks", "block_size", "max_running")
    ]
    + [
        {"max_step_tokens": 0},
        {"max_waiting": 0},
        {"prefill": -1},
        {"retries": -1},
        {"start_timeout": 0},
        {"step_timeout": 0.0},
        {"kv_lease": -1.0},
        {"kv_lease": math.inf},
        {"tensor_parallel": 3},
        {"blocks": 1 << 30},
    ],
)
def test_what_cannot_run_is_refused(given: dict[str, int]):
    with pytest.raises(ValueError, match=r"engine|kv_lease|split|2\*\*53"):
        EngineSettings(**given)


def test_smallest_ones_can():
    EngineSettings(
        tensor_parallel=4,
        blocks=1,
        block_size=1,
        max_running=1,
        max_step_tokens=1,
        max_waiting=1,
        prefill=0,
        retries=0,
        size=ModelSize(2, 4, 4, 4, 1),
    )


@pytest.mark.parametrize(("heads", "inner", "ranks"), [(4, 64, 3), (4, 62, 4), (6, 64, 3)])
def test_ranks_must_divide_heads_and_inner_width(heads: int, inner: int, ranks: int):
    size = ModelSize(width=24, heads=heads, inner=inner)
    with pytest.raises(ValueError, match=f"over {ranks} ranks"):
        size.check_ranks(ranks)
    size.check_ranks(1)
    size.check_ranks(2)
    with pytest.raises(ValueError, match="over 0 ranks"):
        size.check_ranks(0)


def test_the_largest_value_is_known():
    size = ModelSize()
    assert size.largest(1) == 15 * 1024 * 256
    assert size.largest(4096) == 4096 * 15 * 1024 * 256
    wide = ModelSize(width=32, vocabulary=1 << 20)
    assert wide.largest(1) == 32 * 15 * 15 * (1 << 20) + (1 << 20)
    assert ModelSize(inner=1 << 20).largest(1) == (1 << 20) * 15 * 3 + 15
    assert ModelSize(width=1 << 20, heads=1, vocabulary=2).largest(1) == (1 << 20) * 450 + 2


def test_sizes_that_are_not_exact_are_refused():
    size = ModelSize()
    most = (EXACT_BELOW - 1) // (15 * 1024 * 256)
    size.check_exact(most)
    assert EXACT_BELOW == 2**53
    with pytest.raises(ValueError, match="exact below"):
        size.check_exact(most + 1)
