"""Workers in the test's process, joined by real KV links; and pools of them."""

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from refengine.engine.core import worker as module
from refengine.engine.core.scheduler import Scheduler
from refengine.engine.model.batching import Batch, Transfer
from refengine.engine.model.reference import reference_generate
from refengine.engine.protocol import Request
from refengine.engine.settings import EngineSettings
from refengine.errors import DeadlinePassed
from refengine.executor import Executor, PoolSettings
from refengine.group import new_key

from ...pipe.pairs import Beside, free_port
from ..serving import TINY, Replica, run_all

TEXT = tuple(b"The quick brown fox jumps over the lazy dog")
HOST = "127.0.0.1"


def join(prefill: Replica, decode: Replica, name: str = "link") -> None:
    port, key = free_port(), new_key()
    far = Beside(lambda: decode.worker.kv_link(name, HOST, (port,), 1, (key,)))
    prefill.worker.kv_link(name, HOST, port, 0, key)
    far.result()


@pytest.fixture
def pair() -> Iterator[tuple[Replica, Replica]]:
    prefill, decode = (Replica(size=TINY, block_size=4) for _ in range(2))
    join(prefill, decode)
    yield prefill, decode
    prefill.worker.shutdown()
    decode.worker.shutdown()


def prefilled(prefill: Replica, transfer: str = "t") -> tuple[int, ...]:
    """The prompt with its first token."""
    prefill.add(transfer, TEXT, 8, export="link", transfer=transfer)
    while transfer not in prefill.finishes:
        prefill.step()
    assert prefill.finishes[transfer] == "exported"
    return (*TEXT, *prefill.tokens[transfer])


def test_what_one_replica_prefills_another_decodes(pair):
    prefill, decode = pair
    prompt = prefilled(prefill)
    decode.add("a", prompt, 7, imported="link", transfer="t")
    batches: list[Batch] = []
    decode.execute = lambda batch: batches.append(batch) or decode.worker.execute_model(batch)
    run_all(prefill, decode)
    assert [*prompt[len(TEXT) :], *decode.tokens["a"]] == reference_generate(TEXT, 8, TINY)
    first = next(batch.rows[0] for batch in batches if batch.rows)
    assert (first.start, len(first.tokens)) == (len(TEXT), 1)
    assert prefill.scheduler.blocks_in_use == decode.scheduler.blocks_in_use == 0


def test_steps_go_on_while_blocks_are_waited_for(pair):
    prefill, decode = pair
    prompt = prefilled(prefill)
    decode.add("a", prompt, 7, imported="link", transfer="t")
    decode.add("b", TEXT, 8)
    while "b" not in decode.finishes:
        decode.step()
    assert decode.tokens["b"] == reference_generate(TEXT, 8, TINY)
    assert "a" not in decode.finishes
    run_all(prefill, decode)
    assert decode.tokens["a"] == reference_generate(TEXT, 8, TINY)[1:]


def test_without_a_link_a_replica_prefills_by_itself(pair, caplog):
    prefill, decode = pair
    prompt = prefilled(prefill)
    for replica in pair:
        replica.worker.kv_unlink("link")
    decode.add("a", prompt, 7, imported="link", transfer="t")
    with caplog.at_level(logging.INFO):
        run_all(prefill, decode)
    assert "the KV transfer of t failed: there is no KV link 'link'" in caplog.text
    assert decode.tokens["a"] == reference_generate(TEXT, 8, TINY)[1:]
    assert prefill.scheduler.blocks_in_use == 0


def test_a_link_that_is_cut_on_the_way_fails_what_waits_for_it(pair):
    prefill, decode = pair
    decode.add("a", (*TEXT, *reference_generate(TEXT, 1, TINY)), 7, imported="link", transfer="t")
    decode.step()
    prefill.worker.kv_unlink("link")
    run_all(decode)
    assert decode.tokens["a"] == reference_generate(TEXT, 8, TINY)[1:]


def test_a_lease_that_ends_fails_it_at_both_ends():
    prefill, decode = (Replica(size=TINY, kv_lease=0.1) for _ in range(2))
    join(prefill, decode)
    prompt = prefilled(prefill, "sent")
    decode.add("a", prompt, 7, imported="link", transfer="never")
    run_all(prefill, decode)
    assert decode.tokens["a"] == reference_generate(TEXT, 8, TINY)[1:]
    assert prefill.scheduler.blocks_in_use == 0
    prefill.worker.shutdown()
    decode.worker.shutdown()


def test_blocks_of_another_size_are_no_use():
    prefill, decode = Replica(size=TINY, block_size=4), Replica(size=TINY, block_size=8)
    join(prefill, decode)
    prompt = prefilled(prefill)
    decode.add("a", prompt, 7, imported="link", transfer="t")
    run_all(prefill, decode)
    assert decode.tokens["a"] == reference_generate(TEXT, 8, TINY)[1:]
    prefill.worker.shutdown()
    decode.worker.shutdown()


def test_whoever_comes_to_no_link_is_told(monkeypatch):
    monkeypatch.setattr("refengine.engine.kv_worker_links._LINK_WITHIN", 0.1)
    replica = Replica(size=TINY)
    with pytest.raises(DeadlinePassed):
        replica.worker.kv_link("link", HOST, free_port(), 0, new_key())
    replica.worker.shutdown()


def test_a_step_without_rows_waits_a_moment_for_the_end_of_a_transfer():
    replica = Replica(size=TINY)
    asked: list[float] = []
    links: Any = replica.worker._links
    take = links.take
    links.take = lambda seconds: asked.append(seconds) or take(seconds)
    result = replica.worker.execute_model(Batch((), (Transfer("t", "none", (0,)),)))
    assert (result.tokens, result.kv_done, result.kv_failed) == ([], (), ("t",))
    replica.add("a", TEXT, 2)
    replica.run()
    assert asked == [0.005, 0, 0]


def test_a_worker_takes_its_device_then_its_slice(monkeypatch):
    did: list[Any] = []

    class Part:
        def __init__(self, *given: Any) -> None:
            did.append(given)

        def reduce(self, tensor: Any) -> Any:
            return tensor

        def close(self) -> None:
            did.append("close")

    for name in ("Reducer", "WorkerKvLinks", "ExactModel"):
        monkeypatch.setattr(module, name, type(name, (Part,), {}))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    for device, way, mine in (("cpu", "memory", "cpu"), ("cuda", "nccl", "cuda:1")):
        place: Any = SimpleNamespace(
            rank=1, world_size=2, tensor_parallel=2, tensor_rank=1, device=device, node=None
        )
        worker = module.EngineWorker(place, TINY, 5, 3, 7.0)
        worker.shutdown()
        worker.init_device()
        worker.load_model()
        reducer, links, model = did
        assert reducer == (place, way, mine)
        assert links == (mine, 7.0)
        assert model[:4] == (TINY, 1, 2, mine)
        assert model[5:] == (5, 3)
        did.clear()
        worker.shutdown()
        assert did == ["close", "close"]
        did.clear()


def test_a_worker_joins_a_link_by_its_own_port_and_key():
    place: Any = SimpleNamespace(tensor_rank=1, device="cpu")
    worker: Any = module.EngineWorker(place, TINY, 5, 3)
    did: list[Any] = []
    worker._links = SimpleNamespace(link=lambda *given: did.append(given))
    worker.kv_link("a", HOST, (5000, 5001), 0, (b"one", b"two"))
    worker.kv_link("b", HOST, 5002, 1, b"three")
    assert did == [("a", HOST, 5001, 0, b"two"), ("b", HOST, 5002, 1, b"three")]
    assert worker._lease == 5.0


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_pool_computes_what_one_does(ranks):
    made = EngineSettings(tensor_parallel=ranks, blocks=32)
    scheduler = Scheduler(made)
    pool = PoolSettings(preload=("torch",), grace=0.5, term_grace=0.5, start_timeout=60.0)
    options = {"size": made.size, "blocks": made.blocks, "block_size": made.block_size}
    tokens: dict[str, list[int]] = {"a": [], "b": []}
    with Executor(
        "refengine.engine.core.worker:EngineWorker", ranks, options=options, settings=pool
    ) as e:
        scheduler.add(Request("a", TEXT, 6))
        scheduler.add(Request("b", TEXT[:5], 8))
        while (batch := scheduler.schedule()) is not None:
            results = e.collective_rpc("execute_model", 20.0, (batch,))
            for output in scheduler.update(batch, results):
                tokens[output.id].extend(output.tokens)
        e.execute_dummy_batch()
    assert tokens == {"a": reference_generate(TEXT, 6), "b": reference_generate(TEXT[:5], 8)}
