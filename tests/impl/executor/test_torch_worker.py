"""Workers that compute: torch on the CPU, split over two ranks that sum in shared memory."""

import os
import signal
import time
from types import SimpleNamespace

import pytest

from refengine.executor import Executor, PoolSettings, WorkerDied
from refengine.executor.tensors import TorchWorker
from refengine.executor.tensors.model import Size, SplitModel
from refengine.executor.tensors.reducing import device_of, way_of

TOKENS = list(range(0, 64, 3))


def alone():
    return SplitModel(Size(), 0, 1, "cpu", lambda tensor: tensor).next_tokens(TOKENS)


def test_two_ranks_compute_what_one_does_and_a_death_inside_a_collective_is_told():
    """One pool for both: it imports torch once."""
    settings = PoolSettings(start="zygote", preload=("torch",), grace=0.3, term_grace=0.3)
    with Executor(TorchWorker, 2, settings=settings) as made:
        assert made.execute_model(TOKENS) == alone()
        made.execute_dummy_batch()
        assert made.collective_rpc("reduce", 20.0, (1000,)) == [2.0, 2.0]
        os.kill(made.pids[1], signal.SIGSTOP)
        future = made.collective_rpc("reduce", None, (1000,), non_block=True)
        begin = time.monotonic()
        os.kill(made.pids[1], signal.SIGKILL)
        with pytest.raises(WorkerDied, match="SIGKILL"):
            future.result(20.0)
        assert time.monotonic() - begin < 8.0


@pytest.mark.parametrize(
    ("device", "ranks", "gpus", "way", "place"),
    [
        ("cpu", 1, 0, "alone", "cpu"),
        ("cpu", 2, 0, "memory", "cpu"),
        ("cuda", 2, 2, "nccl", "cuda:1"),
        ("cuda", 2, 1, "host", "cuda:0"),
    ],
)
def test_ranks_that_share_a_gpu_go_by_the_host(device, ranks, gpus, way, place):
    here = SimpleNamespace(rank=ranks - 1, world_size=ranks, device=device, node=None)
    assert (way_of(here, gpus), device_of(here, gpus)) == (way, place)


def test_without_a_gpu_cuda_is_refused():
    with pytest.raises(RuntimeError, match="no GPU"):
        device_of(SimpleNamespace(rank=0, device="cuda"), 0)


def test_a_width_that_cannot_be_split_is_refused():
    with pytest.raises(ValueError, match="96"):
        SplitModel(Size(), 0, 5, "cpu", lambda tensor: tensor)
