"""A worker's methods are looked up anew for each call, so that a worker may replace them."""

from __future__ import annotations

from typing import Any

from refengine.executor.worker import WorkerLoop


class Replaces:
    """A worker that has another method after the first call, as one that compiles its step has."""

    def step(self) -> str:
        self.step = lambda: "second"  # type: ignore[method-assign]
        return "first"


def test_a_method_that_the_worker_replaced_is_the_one_that_runs() -> None:
    unused: Any = None
    loop = WorkerLoop(Replaces(), 0, unused, unused, unused, unused)
    found = [loop._method("step")() for _ in range(3)]
    assert found == ["first", "second", "second"]
