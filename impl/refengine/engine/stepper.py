"""The thread of a core that has its workers step: it starts them, and ends with them."""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..base.fds import Fd
from ..errors import Busy
from ..executor import Executor, PoolSettings
from .batch import Batch, StepResult
from .settings import EngineSettings

_WORKER = "refengine.engine.worker:EngineWorker"
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


News = Started | Stepped | Called | Failed


class Stepper:
    """One thing at a time, in order. `take` has what came of them; `fileno` is readable then."""

    def __init__(self, settings: EngineSettings, pool: Callable[..., Executor] = Executor) -> None:
        self._settings, self._pool = settings, pool
        self._orders: queue.SimpleQueue[Callable[[Executor], News]] = queue.SimpleQueue()
        self._news: deque[News] = deque()
        self._bell = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._executors: list[Executor] = []
        self._thread = threading.Thread(target=self._run, name="engine stepper", daemon=True)

    def start(self) -> None:
        """Start the workers, in the thread."""
        self._thread.start()

    def fileno(self) -> int:
        """Readable when there is news."""
        return self._bell.fileno()

    def step(self, batch: Batch | None) -> None:
        """Have this done; without a batch, a dummy step."""
        self._orders.put(lambda executor: Stepped(_step(executor, batch)))

    def call(self, what: object, method: str, *args: Any) -> None:
        """Have a method called at every worker; `Called(what)` tells of it."""
        self._orders.put(lambda executor: _called(executor, what, method, args))

    def take(self) -> list[News]:
        """What has come of it."""
        try:
            os.eventfd_read(self._bell.fileno())
        except BlockingIOError:
            return []
        news: list[News] = []
        while self._news:
            news.append(self._news.popleft())
        return news

    def shut_down(self) -> None:
        """End the workers, if they have all been started; from the core's other thread."""
        for executor in self._executors:
            executor.shutdown()

    def _run(self) -> None:
        try:
            executor = self._start()
            self._tell(Started(tuple(executor.pids)))
            while True:
                self._tell(self._orders.get()(executor))
        except BaseException as error:
            self._tell(Failed(_told(error)))

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
                preload=("torch", "refengine.engine.worker"),
                start_timeout=settings.start_timeout,
                grace=_GRACE,
                term_grace=_GRACE,
                max_chunk_bytes=_CHUNK,
                max_chunks=_CHUNKS,
            ),
        )
        self._executors.append(executor)
        executor.on_failure(lambda: self._ask_why(executor))
        return executor

    def _ask_why(self, executor: Executor) -> None:
        """The pool's monitor says that it has failed. Whoever is in a call hears so by itself."""
        try:
            executor.check_health(0.0)
        except (Busy, TimeoutError):
            return
        except Exception as error:
            self._tell(Failed(_told(error)))

    def _tell(self, news: News) -> None:
        self._news.append(news)
        os.eventfd_write(self._bell.fileno(), 1)


def _step(executor: Executor, batch: Batch | None) -> tuple[StepResult, ...]:
    if batch is None:
        executor.execute_dummy_batch()
        return ()
    return tuple(executor.collective_rpc("execute_model", args=(batch,)))


def _called(executor: Executor, what: object, method: str, args: tuple[Any, ...]) -> Called:
    try:
        executor.collective_rpc(method, None, args)
    except Exception as error:
        return Called(what, _told(error))
    return Called(what, "")


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
