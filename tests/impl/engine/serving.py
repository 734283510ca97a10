"""Replicas within the test's process: a scheduler, and workers that it steps."""

import time
from types import SimpleNamespace
from typing import Any

from refengine.engine.core.scheduler import Scheduler
from refengine.engine.model.batching import Batch, StepResult
from refengine.engine.model.size import ModelSize
from refengine.engine.protocol import Output, Request
from refengine.engine.settings import EngineSettings

TINY = ModelSize(width=8, heads=2, inner=8, layers=2)


class Replica:
    """One worker."""

    def __init__(self, **given: Any) -> None:
        from refengine.engine.core.worker import EngineWorker

        self.settings = settings = EngineSettings(**given)
        self.scheduler = Scheduler(settings)
        place: Any = SimpleNamespace(
            rank=0, world_size=1, tensor_parallel=1, tensor_rank=0, device="cpu", store=""
        )
        self.worker = EngineWorker(
            place, settings.size, settings.blocks, settings.block_size, settings.kv_lease
        )
        self.worker.init_device()
        self.worker.load_model()
        self.tokens: dict[str, list[int]] = {}
        self.finishes: dict[str, str] = {}

    def add(self, request_id: str, prompt: Any, max_tokens: int = 8, **more: Any) -> None:
        self.scheduler.add(Request(request_id, tuple(prompt), max_tokens, **more))

    def step(self) -> Batch | None:
        batch = self.scheduler.schedule()
        if batch is not None:
            self.note(self.scheduler.update(batch, self.execute(batch)))
        return batch

    def execute(self, batch: Batch) -> StepResult:
        return self.worker.execute_model(batch)

    def note(self, outputs: list[Output]) -> None:
        for output in outputs:
            assert output.id not in self.finishes
            self.tokens.setdefault(output.id, []).extend(output.tokens)
            if output.finish is not None:
                self.finishes[output.id] = output.finish

    def run(self, most: int = 10_000) -> int:
        """Until there is nothing to do; how many steps that took."""
        for number in range(most):
            if self.step() is None:
                return number
        raise AssertionError(f"not done after {most} steps: {self.finishes}")


def run_all(*replicas: Replica, seconds: float = 20.0) -> None:
    """Until none has anything to do."""
    end = time.monotonic() + seconds
    while any([replica.step() is not None for replica in replicas]):  # noqa: C419  each steps
        assert time.monotonic() < end, f"not done: {[replica.finishes for replica in replicas]}"
