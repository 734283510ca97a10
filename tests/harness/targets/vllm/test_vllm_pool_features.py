"""What a pool can be asked for is read off the executor's file and the settings' file."""

from __future__ import annotations

import ast
import pickle
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vllm_pool_tree import EXECUTOR, EchoWorker, pool_tree

from killpoint.targets import vllm
from killpoint.targets.protocol import HasPool, PoolShape, UnsupportedByTarget
from killpoint.targets.vllm.adapter import VllmTarget
from killpoint.targets.vllm.pool import Pool
from killpoint.targets.vllm.pool_features import PoolFeatures, read
from killpoint.targets.vllm.pool_settings import settings
from killpoint.targets.vllm.pool_worker import WorkerWrapper

OLD = """
class MultiprocExecutor:
    def collective_rpc(self, method, timeout, args, kwargs, rank0_reply_only=False): ...
    def register_failure_callback(self, callback): ...
"""
MIDDLE = """
class MultiprocExecutor:
    def collective_rpc(self, method, timeout, args, kwargs, non_block, unique_reply_rank):
        self.io_thread_pool, self.parallel_config.pipeline_parallel_size
        self.scheduler_config.async_scheduling
    def register_failure_callback(self, callback): ...
class WorkerProc:
    def async_output_busy_loop(self): ...
"""
NEW = MIDDLE.replace("unique_reply_rank)", "unique_reply_rank, kv_output_aggregator)").replace(
    "class WorkerProc", "class FutureWrapper: ...\nclass WorkerProc"
)
CHECKED = 'X = {"M": env_with_choices("VLLM_WORKER_MULTIPROC_METHOD", "fork", ["spawn", "fork"])}'


def features(executor: str, chosen: str | None = None) -> PoolFeatures:
    found = read(ast.parse(executor), None if chosen is None else ast.parse(chosen))
    assert found is not None
    return found


def target(root: Path, executor: str) -> VllmTarget:
    built = vllm.build(pool_tree(root, executor))
    assert isinstance(built, VllmTarget)
    return built


class Recorder:
    """Takes the executor's place, and answers with what it was asked."""

    io_thread_pool: Any = None

    def collective_rpc(self, method: str, **asked: Any) -> Any:
        return [(method, asked)]


def asked(built: VllmTarget, rank: int | None) -> Any:
    return built.pool_call(Pool(Recorder(), ()), "m", (1,), 2.0, rank)


def test_each_generation_is_known_by_what_it_takes() -> None:
    old, middle, new = features(OLD), features(MIDDLE), features(NEW)
    assert [found.any_rank for found in (old, middle, new)] == [False, True, True]
    assert [found.non_blocking for found in (old, middle, new)] == [False, True, True]
    assert [found.bare_reply for found in (old, middle, new)] == [False, False, True]
    assert [found.lazy_futures for found in (old, middle, new)] == [False, False, True]
    assert [found.output_thread for found in (old, middle, new)] == [False, True, True]
    assert [found.pipeline for found in (old, middle, new)] == [False, True, True]


def test_start_methods_are_those_that_the_settings_take() -> None:
    assert features(OLD, CHECKED).starts == ("spawn", "fork")
    assert features(OLD, "X = 1").starts == ("spawn", "fork", "forkserver")


@pytest.mark.parametrize("lacking", ["collective_rpc", "register_failure_callback"])
def test_an_executor_without_calls_or_callback_is_no_pool(tmp_path: Path, lacking: str) -> None:
    built = target(tmp_path, OLD.replace(lacking, "other"))
    assert "pool" not in built.capabilities
    with pytest.raises(UnsupportedByTarget, match="no worker pool"):
        built.pool_start(PoolShape(), "m:C", None)


def test_an_executor_with_both_is_a_pool_and_tells_what_was_replaced(tmp_path: Path) -> None:
    built = target(tmp_path, OLD)
    assert "pool" in built.capabilities
    assert isinstance(built, HasPool)
    assert any("grace" in note for note in built.notes)


@pytest.mark.parametrize("seconds", [2.0, 6.0, 12.0])
def test_a_deadline_that_a_start_is_to_run_into_is_refused(tmp_path: Path, seconds: float) -> None:
    with pytest.raises(UnsupportedByTarget, match="deadline for its start"):
        target(tmp_path, OLD).pool_start(PoolShape(start="fork"), "m:C", seconds)


def test_one_rank_is_asked_for_as_the_release_has_it(tmp_path: Path) -> None:
    rest = {"timeout": 2.0, "args": (1,)}
    old = target(tmp_path / "old", OLD)
    assert asked(old, None) == [("m", rest | {"rank0_reply_only": False})]
    assert asked(old, 0) == ("m", rest | {"rank0_reply_only": True})
    with pytest.raises(UnsupportedByTarget, match="rank 0"):
        asked(old, 1)
    assert asked(target(tmp_path / "mid", MIDDLE), 1) == ("m", rest | {"unique_reply_rank": 1})
    new = target(tmp_path / "new", NEW)
    assert asked(new, 1) == [("m", rest | {"unique_reply_rank": 1})]


def test_calls_that_do_not_wait_need_what_carries_them(tmp_path: Path) -> None:
    end = Pool(Recorder(), ())
    with pytest.raises(UnsupportedByTarget, match=r"non-blocking calls$"):
        target(tmp_path / "old", OLD).pool_submit(end, "m", (), None)
    with pytest.raises(UnsupportedByTarget, match="one at a time"):
        target(tmp_path / "mid", MIDDLE).pool_submit(end, "m", (), None)
    new = target(tmp_path / "new", NEW)
    told = new.pool_submit(end, "m", (), None)
    assert told[0][1]["non_block"] is True
    with pytest.raises(UnsupportedByTarget, match="timeouts of futures"):
        new.pool_result(end, told, 1.0)


class Future:
    def __init__(self, value: int, done: bool) -> None:
        self.value, self.ended = value, done

    def result(self, timeout: float | None) -> tuple[int, float | None]:
        return self.value, timeout

    def done(self) -> bool:
        return self.ended


def test_a_future_for_each_worker_counts_as_one(tmp_path: Path) -> None:
    built = target(tmp_path, MIDDLE)
    futures = [Future(1, True), Future(2, False)]
    executor = SimpleNamespace(io_thread_pool=1, collective_rpc=lambda *_, **__: futures)
    end = Pool(executor, ())
    both = built.pool_submit(end, "m", (), None)
    assert not built.pool_done(end, both)
    assert built.pool_result(end, both, 3.0) == [(1, 3.0), (2, 3.0)]
    assert built.pool_result(end, built.pool_submit(end, "m", (), 0), None) == (1, None)


@pytest.mark.parametrize(
    ("executor", "shape", "word"),
    [
        (OLD, PoolShape(workers=4, tensor=2), "pipeline"),
        (MIDDLE, PoolShape(workers=3, tensor=2), "3 workers by 2"),
        (OLD, PoolShape(output_thread=True), "output thread"),
        (OLD, PoolShape(in_flight=2), "2 calls in flight"),
        (MIDDLE, PoolShape(in_flight=3), "3 calls in flight"),
    ],
)
def test_a_shape_that_the_release_cannot_have_is_unsupported(
    tmp_path: Path, executor: str, shape: PoolShape, word: str
) -> None:
    with pytest.raises(UnsupportedByTarget, match=word):
        target(tmp_path, executor).pool_start(shape, "m:C", None)


def test_health_has_no_deadline_but_its_own(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedByTarget, match="10 s"):
        target(tmp_path, EXECUTOR).pool_health(Pool(Recorder(), ()), 2.0)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (RuntimeError("Worker failed with error 'it timed out', please"), "failed"),
        (RuntimeError("Executor failed."), "peer-died"),
        (RuntimeError("cancelled"), "cancelled"),
        (CancelledError(), "cancelled"),
        (TimeoutError("RPC call to m timed out."), "timeout"),
        (AssertionError("follower"), "error"),
    ],
)
def test_errors_of_a_pool_are_told_apart(tmp_path: Path, error: Exception, word: str) -> None:
    assert target(tmp_path, OLD).classify(error) == word


def test_settings_reach_workers_and_name_what_they_lack() -> None:
    made = settings(PoolShape(workers=4, tensor=2), "m:C", overlapping=True)
    found = pickle.loads(pickle.dumps(made))
    parallel = found.parallel_config
    assert (parallel.world_size, parallel.pipeline_parallel_size) == (4, 2)
    assert found.scheduler_config.async_scheduling
    with pytest.raises(AttributeError, match=r"parallel_config\.expert_map"):
        _ = parallel.expert_map


def test_the_wrapper_makes_the_worker_and_passes_on_what_it_is_asked() -> None:
    config = settings(PoolShape(workers=2), "vllm_pool_tree:EchoWorker", overlapping=False)
    wrapper = WorkerWrapper(rpc_rank=1)
    wrapper.init_worker([{}, {"vllm_config": config}])
    wrapper.init_device()
    wrapper.load_model()
    assert isinstance(wrapper.worker, EchoWorker)
    assert wrapper.who("x") == (1, 2, "x", ["made", "device", "model"])
    assert (wrapper.rank, hasattr(wrapper, "device")) == (1, False)
    wrapper.shutdown()
