"""A pool on paper: what a stepper asks of its workers is noted, and answered at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from refengine.engine.core.worker_stepper import WorkerStepper
from refengine.engine.model.batching import StepResult
from refengine.engine.settings import EngineSettings

NOBODY = 1 << 23
"""No process has this number, or a larger one."""
TOKEN = 7


class Pool:
    """Every row that wants a token gets `TOKEN`; what is in `raises`, by method, is raised."""

    def __init__(self, pids: tuple[int, ...] = (NOBODY,)) -> None:
        self.pids = pids
        self.raises: dict[str, BaseException] = {}
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.told: dict[str, Any] = {}
        """How it was made."""
        self.patience: list[float | None] = []
        self.failed: Callable[[], None] = lambda: None
        """What is to be called when the pool fails."""
        self.ended = False
        self.held = threading.Event()
        """Not set: whatever is asked takes until it is."""
        self.held.set()

    def make(self, *args: Any, **told: Any) -> Any:
        """In the place of `Executor`."""
        self._do("start", args)
        self.told = told
        return self

    def on_failure(self, callback: Callable[[], None]) -> None:
        self.failed = callback

    def collective_rpc(self, method: str, timeout: Any = None, args: tuple[Any, ...] = ()) -> Any:
        assert timeout is None
        self._do(method, args)
        if method != "execute_model":
            return [None for _ in self.pids]
        rows = args[0].rows
        return [StepResult([TOKEN if row.sample else None for row in rows]) for _ in self.pids]

    def execute_dummy_batch(self) -> None:
        self._do("dummy", ())

    def check_health(self, timeout: float | None = None) -> None:
        self.patience.append(timeout)
        if "health" in self.raises:
            raise self.raises["health"]

    def shutdown(self) -> None:
        self.ended = True

    def methods(self) -> list[str]:
        return [method for method, _ in self.calls]

    def stepper(self, settings: EngineSettings) -> WorkerStepper:
        return WorkerStepper(settings, self.make)

    def _do(self, method: str, args: tuple[Any, ...]) -> None:
        self.calls.append((method, args))
        assert self.held.wait(10.0), f"{method} is held for ever"
        if method in self.raises:
            raise self.raises[method]
