"""The thread of a core that has its workers step: it starts them, and ends with them."""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import Busy
from ...executor import Executor, PoolSettings
from ...executor.held import End
from ..model.batching import Batch, StepResult
from ..settings import EngineSettings

_WORKER = "refengine.engine.core.worker:EngineWorker"
_GRACE = 1.0  # seconds for workers to leave by themselves, and again after SIGTERM
_CHUNK, _CHUNKS = 1 << 17, 4
"""Of the queues to and from workers: a step is small, and their memory is taken at the start."""


@dataclass(frozen=True)
class Started:
    """The workers are there."""

    pids: tuple[int, ...]


@dataclass(frozen=True)
class Stepped:
    """A step is done: what each rank says."""

    results: tuple[StepResult, ...]


@dataclass(frozen=True)
class Called:
    """Something else is done at every worker, or could not be."""

    what: object
    failure: str


@dataclass(frozen=True)
class Failed:
    """The workers are of no use any more."""

    cause: str


StepperEvent = Started | Stepped | Called | Failed


class WorkerStepper:
    """One thing at a time, in order. `take` has what came of them; `fileno` is readable then."""

    def __init__(self, settings: EngineSettings, pool: Callable[..., Executor] = Executor) -> None:
        self._settings, self._pool = settings, pool
        self._tasks: queue.SimpleQueue[Callable[[Executor], StepperEvent]] = queue.SimpleQueue()
        self._events: deque[StepperEvent] = deque()
        self._wakeup = End(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._executors: list[Executor] = []
        self._thread = threading.Thread(target=self._run, name="engine stepper", daemon=True)

    def start(self) -> None:
        """Start the workers, in the thread."""
        self._thread.start()

    def fileno(self) -> int:
        """Readable when there is news."""
        return self._wakeup.fileno()

    def step(self, batch: Batch | None) -> None:
        """Have this done; without a batch, a dummy step."""
        self._tasks.put(lambda executor: Stepped(_step(executor, batch)))

    def call(self, what: object, method: str, *args: Any) -> None:
        """Have a method called at every worker; `Called(what)` tells of it."""
        self._tasks.put(lambda executor: _call(executor, what, method, args))

    def take(self) -> list[StepperEvent]:
        """What has come of it."""
        try:
            os.eventfd_read(self._wakeup.fileno())
        except BlockingIOError:
            return []
        events: list[StepperEvent] = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def shut_down(self) -> None:
        """End the workers, if they have all been started; from the core's other thread."""
        for executor in self._executors:
            executor.shutdown()

    def _run(self) -> None:
        try:
            executor = self._start()
            self._post(Started(tuple(executor.pids)))
            while True:
                self._post(self._tasks.get()(executor))
        except BaseException as error:
            self._post(Failed(_format_error(error)))

    def _start(self) -> Executor:
        settings = self._settings
        executor = self._pool(
            _WORKER,
            settings.tensor_parallel,
            device=settings.device,
            options={
                "size": settings.size,
                "blocks": settings.blocks,
                "block_size": settings.block_size,
                "lease": settings.kv_lease,
            },
            settings=PoolSettings(
                preload=("torch", "refengine.engine.core.worker"),
                start_timeout=settings.start_timeout,
                grace=_GRACE,
                term_grace=_GRACE,
                max_chunk_bytes=_CHUNK,
                max_chunks=_CHUNKS,
            ),
        )
        self._executors.append(executor)
        executor.on_failure(lambda: self._report_failure(executor))
        return executor

    def _report_failure(self, executor: Executor) -> None:
        """The pool's monitor says that it has failed. Whoever is in a call hears so by itself."""
        try:
            executor.check_health(0.0)
        except (Busy, TimeoutError):
            return
        except Exception as error:
            self._post(Failed(_format_error(error)))

    def _post(self, event: StepperEvent) -> None:
        self._events.append(event)
        os.eventfd_write(self._wakeup.fileno(), 1)


def _step(executor: Executor, batch: Batch | None) -> tuple[StepResult, ...]:
    if batch is None:
        executor.execute_dummy_batch()
        return ()
    return tuple(executor.collective_rpc("execute_model", args=(batch,)))


def _call(executor: Executor, what: object, method: str, args: tuple[Any, ...]) -> Called:
    try:
        executor.collective_rpc(method, None, args)
    except Exception as error:
        return Called(what, _format_error(error))
    return Called(what, "")


def _format_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
