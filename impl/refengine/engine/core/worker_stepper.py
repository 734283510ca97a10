"""The core's thread that starts the workers and has them step; it ends with them."""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...base.fds import Fd
from ...errors import Busy
from ...executor import Executor, PoolSettings
from ..model.batching import Batch, StepResult
from ..settings import EngineSettings

_WORKER = "refengine.engine.core.worker:EngineWorker"
PRELOAD = ("torch", "refengine.engine.core.worker")
"""Modules that every worker needs."""
_GRACE = 1.0  # seconds for workers to exit by themselves, and again after SIGTERM
_CHUNK, _CHUNKS = 1 << 17, 4
"""Size of the workers' queues: a step is small, and their memory is taken at the start."""


@dataclass(frozen=True)
class Started:
    """The workers have started."""

    pids: tuple[int, ...]


@dataclass(frozen=True)
class Stepped:
    """A step is done, with each rank's result."""

    results: tuple[StepResult, ...]


@dataclass(frozen=True)
class Called:
    """A call was made at every worker, or failed."""

    what: object
    failure: str


@dataclass(frozen=True)
class Failed:
    """The workers have failed, and serve no further step."""

    cause: str


StepperEvent = Started | Stepped | Called | Failed


class WorkerStepper:
    """Runs orders one at a time; `take` returns the events, and `fileno` is readable then."""

    def __init__(self, settings: EngineSettings, pool: Callable[..., Executor] = Executor) -> None:
        self._settings, self._pool = settings, pool
        self._tasks: queue.SimpleQueue[Callable[[Executor], StepperEvent]] = queue.SimpleQueue()
        self._events: deque[StepperEvent] = deque()
        self._wakeup = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._executors: list[Executor] = []
        self._thread = threading.Thread(target=self._run, name="engine stepper", daemon=True)

    def start(self) -> None:
        """Start the thread, which starts the workers."""
        self._thread.start()

    def fileno(self) -> int:
        """Descriptor that is readable when there are events."""
        return self._wakeup.fileno()

    def step(self, batch: Batch | None) -> None:
        """Order a step; without a batch, a dummy step."""
        self._tasks.put(lambda executor: Stepped(_step(executor, batch)))

    def call(self, what: object, method: str, *args: Any) -> None:
        """Order a method call at every worker; the event is `Called(what)`."""
        self._tasks.put(lambda executor: _call(executor, what, method, args))

    def take(self) -> list[StepperEvent]:
        """Return the events so far."""
        try:
            os.eventfd_read(self._wakeup.fileno())
        except BlockingIOError:
            return []
        events: list[StepperEvent] = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def shut_down(self) -> None:
        """Shut the workers down, if all were started; called from the core's other thread."""
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
                preload=PRELOAD,
                start_timeout=settings.start_timeout,
                grace=_GRACE,
                term_grace=_GRACE,
                max_chunk_bytes=_CHUNK,
                max_chunks=_CHUNKS,
                nodes=settings.nodes,
            ),
        )
        self._executors.append(executor)
        executor.on_failure(lambda: self._report_failure(executor))
        return executor

    def _report_failure(self, executor: Executor) -> None:
        """Post the failure that the pool's monitor reports, unless a call is on and raises it."""
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
