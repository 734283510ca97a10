"""`Executor` without a pool behind it, and what a user gets who says nothing."""

from types import SimpleNamespace
from typing import Any

import pytest

from refengine.executor import (
    Executor,
    PoolSettings,
    executor,
)
from refengine.executor.settings import WorkerSpec
from refengine.executor.workers import PoolShape


class TestExecutor:
    """`Executor` without a pool behind it."""

    @pytest.fixture
    def face(self, monkeypatch):
        did: list[Any] = []

        class Pool:
            def __init__(self, shape: Any, spec: Any, settings: Any) -> None:
                self.shape, self.spec, self.settings = shape, spec, settings
                self.lifecycle = SimpleNamespace(state=SimpleNamespace(name="READY"))
                self.workers = SimpleNamespace(pids=lambda: [7, 8])
                self.monitor = SimpleNamespace(call_on_failure=did.append)

            def start(self) -> None:
                did.append("start")

            def stop(self) -> None:
                did.append("stop")

            @property
            def rpc(self) -> Any:
                return self

            def call(self, call: Any) -> list[Any]:
                did.append(call[:5])
                return [SimpleNamespace(), "second"]

            def submit(self, call: Any, shape: Any) -> Any:
                did.append((*call[:5], shape))
                return shape

            def check_health(self, timeout: float | None) -> None:
                did.append(timeout)

        monkeypatch.setattr(executor, "Pool", Pool)

        def make(*args: Any, **given: Any) -> Any:
            made: Any = Executor("x:Y", *args, **given)
            made.did = did
            made.pool = made._pool
            return made

        return make

    def test_one_worker_on_the_cpu_is_the_default(self, face):
        made = face()
        assert made.pool.shape == PoolShape(1, 1, "cpu")
        assert made.pool.spec == WorkerSpec("x:Y", {})
        assert made.settings == PoolSettings()
        assert (made.state, made.pids, made.max_concurrent_batches) == ("READY", [7, 8], 1)
        assert made.did == ["start"]

    def test_no_workers_are_no_pool(self, face):
        with pytest.raises(ValueError, match="0 workers cannot be stages of 1"):
            face(0, 1)

    def test_a_callback_is_added_to_those_of_the_settings(self, face):
        settings = PoolSettings(failure_callbacks=[print])
        made = face(settings=settings, on_failure=repr)
        assert made.settings.failure_callbacks == [print, repr]
        assert settings.failure_callbacks == [print]
        assert face(settings=settings).settings is settings
        made.on_failure(str)
        assert made.did[-1] is str

    def test_calls_as_they_go_to_the_pool(self, face):
        made = face(2, 1, settings=PoolSettings(execute_timeout=3.0, health_timeout=5.0))
        made.did.clear()
        assert made.collective_rpc("m")[1] == "second"
        made.collective_rpc("m", 1.0, (2,), {"k": 3})
        assert made.did == [("m", None, (), {}, None), ("m", 1.0, (2,), {"k": 3}, None)]
        made.did.clear()
        assert isinstance(made.collective_rpc("m", unique_reply_rank=0), SimpleNamespace)
        assert made.collective_rpc("m", non_block=True) is list
        first = made.collective_rpc("m", non_block=True, unique_reply_rank=0)
        assert first([5, 6]) == 5
        assert made.did == [
            ("m", None, (), {}, 0), ("m", None, (), {}, None, list),
            ("m", None, (), {}, 0, first),
        ]  # fmt: skip
        made.did.clear()
        made.execute_model("s")
        made.execute_model("s", non_block=True)
        made.take_draft_token_ids()
        made.execute_dummy_batch()
        made.check_health()
        made.check_health(0.0)
        assert made.did == [
            ("execute_model", 3.0, ("s",), {}, 1), ("execute_model", 3.0, ("s",), {}, 1, first),
            ("take_draft_token_ids", 3.0, (), {}, 1), ("execute_dummy_batch", 3.0, (), {}, None),
            5.0, 0.0,
        ]  # fmt: skip

    @pytest.mark.parametrize("rank", [-1, 2])
    @pytest.mark.parametrize("non_block", [False, True])
    def test_a_rank_that_is_not_there_is_refused_before_anything_is_sent(
        self, face, rank, non_block
    ):
        made = face(2, 1)
        made.did.clear()
        with pytest.raises(ValueError, match=f"no rank {rank}: of 2 workers"):
            made.collective_rpc("m", unique_reply_rank=rank, non_block=non_block)
        assert made.did == []

    def test_it_stops_its_pool_once_however_it_ends(self, face):
        made = face()
        with made as same:
            assert same is made
        assert made.did == ["start", "stop"]
        assert not made._finalizer.still_active()
        other = face()
        finalizer = other._finalizer
        assert finalizer._key[0] == 30  # before a zygote's
        made.did.clear()
        finalizer()
        assert made.did == ["stop"]


def test_settings_by_default():
    """What a user gets who says nothing; each is a promise of the documentation."""
    s = PoolSettings()
    assert (s.start, s.preload, s.start_timeout) == ("zygote", ("torch",), 300.0)
    assert (s.execute_timeout, s.health_timeout) == (None, 10.0)
    assert (s.grace, s.term_grace, s.in_flight) == (4.0, 4.0, 1)
    assert (s.output_thread, s.transfers, s.log_prefix) == (False, False, True)
    assert (s.max_chunk_bytes, s.max_chunks) == (1 << 20, 10)
    assert s.failure_callbacks == []
    assert s.failure_callbacks is not PoolSettings().failure_callbacks
