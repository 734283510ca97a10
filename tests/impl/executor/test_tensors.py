"""How ranks of a stage sum tensors and split a model, without processes (SPEC 5)."""

import importlib
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.executor.tensors import TorchWorker, reducing
from refengine.executor.tensors.model import Size, SplitModel
from refengine.executor.tensors.reducing import Reducer


class Distributed:
    """torch.distributed as far as it is used; notes what is asked."""

    def __init__(self) -> None:
        self.did: list[Any] = []

    def FileStore(self, path: str, ranks: int) -> Any:
        return (path, ranks)

    def init_process_group(self, backend: str, **given: Any) -> None:
        self.did.append((backend, given))

    def new_group(self, ranks: list[int]) -> Any:
        self.did.append(ranks)
        return f"group of {ranks}"

    def all_reduce(self, tensor: Any, group: Any) -> None:
        self.did.append((tensor, group))

    def destroy_process_group(self) -> None:
        self.did.append("left")


class Tensor:
    def cpu(self) -> str:
        return "its copy"

    def copy_(self, other: Any) -> Any:
        return (self, other)


@pytest.fixture
def fakes(monkeypatch):
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth7")
    distributed, devices = Distributed(), list[str]()
    torch = SimpleNamespace(cuda=SimpleNamespace(set_device=devices.append))
    known = {"torch.distributed": distributed, "torch": torch}
    monkeypatch.setattr(reducing, "importlib", SimpleNamespace(import_module=known.__getitem__))
    return distributed, devices


def place(rank: int = 3, world: int = 4, tensor: int = 2) -> Any:
    return SimpleNamespace(
        rank=rank, world_size=world, tensor_parallel=tensor, stage=rank // tensor,
        tensor_rank=rank % tensor, device="cpu", store="/the/store",
        wakeups=(5, 6), node=None,
    )  # fmt: skip


def test_over_nccl_every_rank_makes_all_groups_and_sums_in_its_own(fakes):
    distributed, chosen = fakes
    made = Reducer(place(), "nccl", "cuda:1")
    given = {"store": ("/the/store", 4), "rank": 3, "world_size": 4}
    assert distributed.did == [("nccl", given), [0, 1], [2, 3]]
    assert chosen == ["cuda:1"]
    distributed.did.clear()
    tensor = Tensor()
    assert made.reduce(tensor) is tensor
    assert distributed.did == [(tensor, "group of [2, 3]")]
    distributed.did.clear()
    made.close()
    made.close()
    assert distributed.did == ["left"]


@pytest.mark.parametrize("way", ["memory", "host"])
def test_on_one_host_ranks_sum_in_memory_and_nobody_listens(fakes, monkeypatch, way):
    distributed, _ = fakes
    did: list[Any] = []

    class Shared:
        def __init__(self, *given: Any) -> None:
            did.append(given)

        def reduce(self, tensor: Any) -> Any:
            did.append(tensor)
            return "the sum"

        def close(self) -> None:
            did.append("left")

    monkeypatch.setattr(reducing, "SharedSum", Shared)
    made, tensor = Reducer(place(), way, "cuda:1"), Tensor()
    found: Any = made.reduce(tensor)
    assert found == ((tensor, "the sum") if way == "host" else "the sum")
    made.close()
    made.close()
    part = "its copy" if way == "host" else tensor
    assert did == [("/the/store", 4, range(2, 4), 1, (5, 6)), part, "left"]
    assert distributed.did == []


def test_nccl_uses_only_loopback_unless_somebody_knows_better(fakes):
    Reducer(place(0), "nccl", "cpu")
    environ = reducing.os.environ
    assert environ["NCCL_SOCKET_IFNAME"] == "eth7"
    environ.pop("NCCL_SOCKET_IFNAME")
    Reducer(place(0), "nccl", "cpu")
    assert environ["NCCL_SOCKET_IFNAME"] == "lo"


def test_one_alone_has_nothing_to_sum(fakes):
    distributed, _ = fakes
    made = Reducer(place(), "alone", "cpu")
    tensor = Tensor()
    assert made.reduce(tensor) is tensor
    made.close()
    assert distributed.did == []


class Rank:
    """Ranks in threads: a sum waits for all of them."""

    def __init__(self, count: int) -> None:
        self.parts: list[Any] = [None] * count
        self.all = threading.Barrier(count, timeout=20)

    def reduce(self, rank: int) -> Any:
        def reduce(tensor: Any) -> Any:
            self.parts[rank] = tensor
            self.all.wait()
            whole = sum(self.parts)
            self.all.wait()
            return whole

        return reduce


@pytest.mark.parametrize("count", [2, 3])
def test_ranks_together_compute_what_one_does(count):
    pytest.importorskip("torch")
    tokens = list(range(64))
    whole = SplitModel(Size(), 0, 1, "cpu", lambda tensor: tensor).next_tokens(tokens)
    together, found = Rank(count), dict[int, Any]()

    def run(rank: int) -> None:
        model = SplitModel(Size(), rank, count, "cpu", together.reduce(rank))
        found[rank] = model.next_tokens(tokens)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == dict.fromkeys(range(count), whole)
    assert len(set(whole)) > 20  # it is no constant, and not the token itself
    assert whole != tokens
    other = SplitModel(Size(seed=1), 0, 1, "cpu", lambda tensor: tensor).next_tokens(tokens)
    assert other != whole
    one_layer = Size(layers=1)
    assert SplitModel(one_layer, 0, 1, "cpu", lambda t: t).next_tokens(tokens) != whole


def test_a_sum_that_is_wrong_shows():
    """Else a reduction that does nothing would look like one that works."""
    pytest.importorskip("torch")
    tokens = list(range(64))
    one, half = (
        SplitModel(Size(), 0, ranks, "cpu", lambda tensor: tensor).next_tokens(tokens)
        for ranks in (1, 2)
    )
    assert sum(a != b for a, b in zip(one, half, strict=True)) > 5


def test_a_models_size():
    assert Size() == Size(64, 32, 96, 2, 0)
    torch = pytest.importorskip("torch")
    model = SplitModel(Size(), 1, 2, "cpu", lambda tensor: tensor)
    (into, out_of), _ = model._layers
    assert (tuple(into.shape), tuple(out_of.shape)) == ((48, 32), (32, 48))
    assert into.dtype == torch.float64
    # So that neither a layer's sum nor its gradient would grow with its width.
    assert 0.8 < into.std() * 32**0.5 < 1.2
    assert 0.8 < out_of.std() * 96**0.5 < 1.2
    for weights in (model._embedding, model._head):
        assert 0.8 < weights.std() * 32**0.5 < 1.2


class TestWorker:
    def test_it_takes_its_device_then_its_slice(self, monkeypatch):
        module: Any = importlib.import_module("refengine.executor.tensors.worker")
        did: list[Any] = []

        class Reducer:
            reduce = staticmethod(lambda tensor: did.append(tensor) or [5.0, 7.0])

            def __init__(self, place: Any, way: str, device: str) -> None:
                did.append((way, device))

            def close(self) -> None:
                did.append("close")

        class Model:
            def __init__(self, *given: Any) -> None:
                did.append(given)

            def next_tokens(self, tokens: Any) -> Any:
                did.append(tokens)
                return [n + 1 for n in tokens]

        torch = SimpleNamespace(
            cuda=SimpleNamespace(device_count=lambda: 4),
            ones=lambda numel, device: ("ones", numel, device),
        )
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setattr(module, "Reducer", Reducer)
        monkeypatch.setattr(module, "SplitModel", Model)
        for device, way, mine in (("cpu", "memory", "cpu"), ("cuda", "nccl", "cuda:3")):
            here = place()
            here.device = device
            worker = TorchWorker(here)
            worker.shutdown()
            with pytest.raises(AssertionError):  # nothing is loaded
                worker.execute_model([4])
            worker.init_device()
            worker.load_model()
            assert did == [(way, mine), (Size(), 1, 2, mine, Reducer.reduce)]
            did.clear()
            assert worker.execute_model([4]) == [5]
            worker.execute_dummy_batch()
            assert worker.reduce(9) == 7.0
            worker.shutdown()
            assert did == [[4], [0], ("ones", 9, mine), "close"]
            did.clear()
        assert TorchWorker(place(), Size(seed=4))._size == Size(seed=4)
