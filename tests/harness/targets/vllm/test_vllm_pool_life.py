"""Pools live under each start method: on a small tree, and on published releases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vllm_pool_tree import EXECUTOR, pool_tree

from killpoint.targets import vllm
from killpoint.targets.protocol import PoolShape
from killpoint.targets.vllm.adapter import VllmTarget

Elsewhere = Callable[..., Any]
WORKER = "vllm_pool_tree:EchoWorker"


def loaded(spec: str) -> VllmTarget:
    target = vllm.build(spec)
    assert isinstance(target, VllmTarget)
    target.load()
    return target


def lived(spec: str, start: str, in_flight: int = 1) -> dict[str, Any]:
    target = loaded(spec)
    shape = PoolShape(start=start, in_flight=in_flight, chunk_bytes=4096, chunks=3)
    end = target.pool_start(shape, WORKER, 20)
    called: list[str] = []
    target.pool_on_failure(end, lambda: called.append("failed"))
    found = {
        "sizes": getattr(end.executor, "sizes", None),
        "all": target.pool_call(end, "who", ("hi",), 10, None),
        "first": target.pool_call(end, "who", ("hi",), 10, 0),
        "pids": target.pool_call(end, "pid", (), 10, None) == target.pool_pids(end),
        "health": target.pool_health(end, None),
        "state": target.pool_state(end),
    }
    if in_flight > 1:
        futures = [target.pool_submit(end, "who", (word,), None) for word in "ab"]
        values = [target.pool_result(end, future, None) for future in futures]
        found["words"] = [[value[2] for value in of] for of in values]
        found["done"] = all(target.pool_done(end, future) for future in futures)
    target.pool_stop(end)
    target.pool_stop(end)
    left = [pid for pid in target.pool_pids(end) if Path(f"/proc/{pid}").exists()]
    return found | {"left": left, "called": called}


def expected(sizes: list[tuple[int, int]] | None) -> dict[str, Any]:
    steps = ["made", "device", "model"]
    return {
        "sizes": sizes,
        "all": [(0, 2, "hi", steps), (1, 2, "hi", steps)],
        "first": (0, 2, "hi", steps),
        "pids": True,
        "health": None,
        "state": "",
        "left": [],
        "called": [],
    }


@pytest.mark.parametrize("start", ["default", "fork", "spawn", "forkserver"])
def test_workers_find_the_same_files_and_sizes_whatever_started_them(
    tmp_path: Path, elsewhere: Elsewhere, start: str
) -> None:
    found = elsewhere(lived, pool_tree(tmp_path), start)
    assert found == expected([(4096, 3), (4096, 3)])


def capabilities_of(spec: str) -> tuple[list[str], tuple[str, ...]]:
    target = loaded(spec)
    return sorted(target.capabilities), target.notes


def test_an_executor_that_wants_more_than_there_is_costs_the_pool_and_nothing_else(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    spec = pool_tree(tmp_path, f"import vllm.unheard_of\n{EXECUTOR}")
    words, notes = elsewhere(capabilities_of, spec)
    assert "queue" in words
    assert "pool" not in words
    assert "vllm.unheard_of" in notes[-1]


@pytest.mark.network
@pytest.mark.parametrize("version", ["0.8.5", "0.11.0", "0.33.0"])
def test_a_published_pool_starts_is_called_and_stops(
    version: str, published: Callable[[str], str], elsewhere: Elsewhere
) -> None:
    in_flight = 1 if version == "0.8.5" else 2
    found = elsewhere(lived, published(version), "fork", in_flight)
    more = {"words": [["a", "a"], ["b", "b"]], "done": True} if in_flight > 1 else {}
    assert found == expected(None) | more
