"""Sums over two nodes: the same bits at both ends, and an error where one is gone."""

import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from refengine.base.security import Keys
from refengine.executor.nodes.settings import SumLink
from refengine.executor.tensors import node_sum
from refengine.executor.tensors.node_sum import NodeSum

torch = pytest.importorskip("torch")


def link(**given):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return replace(SumLink(True, "127.0.0.1", port, Keys.fresh(), 2.0, 5.0), **given)


@pytest.fixture
def ends():
    both = link()
    made = NodeSum(both), NodeSum(replace(both, listens=False))
    yield made
    for end in made:
        end.close()
        end.close()


def at_both(ends, *tensors):
    with ThreadPoolExecutor(2) as threads:
        futures = [
            threads.submit(end.reduce, tensor) for end, tensor in zip(ends, tensors, strict=True)
        ]
        return [future.result(10) for future in futures]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64])
def test_both_ends_get_the_same_sum(ends, dtype):
    parts = [torch.arange(12).reshape(3, 4).to(dtype) * factor for factor in (1, 10)]
    wanted = (torch.arange(12).reshape(3, 4) * 11).to(dtype)
    for found, part in zip(at_both(ends, *parts), parts, strict=True):
        assert torch.equal(found, wanted)
        assert found.data_ptr() == part.data_ptr()


def test_sums_come_in_order_large_strided_and_empty_ones_too(ends):
    large = torch.ones(1 << 16, dtype=torch.float64)
    assert [float(each[-1]) for each in at_both(ends, large, large * 2)] == [3.0, 3.0]
    assert [len(each) for each in at_both(ends, torch.ones(0), torch.ones(0))] == [0, 0]
    grid = [torch.ones(4, 6)[:, ::2] for _ in range(2)]
    assert all(torch.equal(each, torch.full((4, 3), 2.0)) for each in at_both(ends, *grid))
    one = [torch.ones(2)[::2] for _ in range(2)]  # contiguous, and its stride is 2
    assert all(torch.equal(each, torch.tensor([2.0])) for each in at_both(ends, *one))


def test_parts_of_different_sizes_are_an_error_at_both(ends):
    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(end.reduce, torch.ones(n)) for n, end in enumerate(ends, start=1)]
        for future in futures:
            with pytest.raises(RuntimeError, match=r"sums \d bytes where this one sums \d"):
                future.result(10)


def test_a_sum_fails_once_the_other_end_has_left(ends, monkeypatch):
    monkeypatch.setattr(node_sum, "_TOLD_WITHIN", 0.05)
    at_both(ends, torch.ones(1), torch.ones(1))
    ends[0].close()
    with pytest.raises(RuntimeError, match="has left"):
        ends[1].reduce(torch.ones(1))


def test_a_sum_fails_if_the_other_end_never_comes(monkeypatch):
    monkeypatch.setattr(node_sum, "_TOLD_WITHIN", 0.05)
    alone = NodeSum(link(patience=0.1))
    with pytest.raises(RuntimeError, match="has not come"):
        alone.reduce(torch.ones(1))
    alone.close()
    alone = NodeSum(link(patience=0.1, listens=False))
    with pytest.raises(RuntimeError, match=r"has not come|was not heard of"):
        alone.reduce(torch.ones(1))
    alone.close()


def test_a_third_party_with_the_key_is_not_admitted(ends, monkeypatch):
    monkeypatch.setattr(node_sum, "_TOLD_WITHIN", 0.05)
    at_both(ends, torch.ones(1), torch.ones(1))
    third = NodeSum(replace(ends[0]._link, listens=False))
    with pytest.raises(RuntimeError, match="not admitted"):
        third.reduce(torch.ones(1))
    third.close()
