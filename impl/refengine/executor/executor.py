"""A pool of worker processes that all run what they are told, in step (SPEC 5)."""

from collections.abc import Callable
from dataclasses import replace
from multiprocessing.util import Finalize
from typing import Any, Self

from .aggregation import Aggregation
from .asking import Method, Order
from .crew import Shape
from .pool import Pool
from .settings import PoolSettings, WorkerSpec


class Executor:
    """Starts `world_size` workers and waits until all are READY.

    `worker` is a class, or "module:Class"; it is made as `worker(place, **options)` in each
    process (see `Place`), then `init_device()` and `load_model()` are called. Any other method is
    called by name; `shutdown()`, if there is one, when a worker leaves in good order.

    Raises StartFailed with the worker's own traceback, or TimeoutError. However this object ends,
    by `shutdown`, garbage collection, interpreter exit or SIGKILL, its workers end with it.
    """

    def __init__(
        self,
        worker: str | type,
        world_size: int = 1,
        tensor_parallel: int | None = None,
        *,
        device: str = "cpu",
        options: dict[str, Any] | None = None,
        settings: PoolSettings | None = None,
        on_failure: Callable[[], None] | None = None,
    ) -> None:
        tensor = world_size if tensor_parallel is None else tensor_parallel
        if world_size < 1 or tensor < 1 or world_size % tensor:
            raise ValueError(f"{world_size} workers cannot be stages of {tensor}")
        settings = settings or PoolSettings()
        if on_failure is not None:
            settings = replace(
                settings, failure_callbacks=[*settings.failure_callbacks, on_failure]
            )
        shape = Shape(world_size, tensor, device)
        self._aggregation = Aggregation(world_size, shape.output_rank)
        self._pool = pool = Pool(shape, WorkerSpec(worker, options or {}), settings)
        self._finalizer = Finalize(self, pool.stop, exitpriority=30)
        try:
            pool.start()
        except BaseException:
            pool.stop()
            raise

    @property
    def settings(self) -> PoolSettings:
        """As it was made with."""
        return self._pool.settings

    @property
    def state(self) -> str:
        """One of SPEC W1's words."""
        return self._pool.lifecycle.state.name

    @property
    def pids(self) -> list[int]:
        """The workers' processes, by rank."""
        return self._pool.crew.pids()

    @property
    def max_concurrent_batches(self) -> int:
        """How many non-blocking calls may be under way."""
        return self.settings.in_flight

    def collective_rpc(
        self,
        method: Method,
        timeout: float | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        non_block: bool = False,
        unique_reply_rank: int | None = None,
    ) -> Any:
        """Run a method at every worker; a list of results in rank order, or that one rank's.

        `method`: a name, or a function, which is sent by value and gets the worker as its first
        argument. `non_block`: a future of the same, resolved in the order of the calls.

        Raises CallFailed (a worker's own error; the pool goes on), CallTimedOut (its late reply
        is dropped), WorkerDied (the pool has ended), PoolClosed.
        """
        only = unique_reply_rank
        order = Order.given(method, timeout, args, kwargs, only)
        if non_block:
            return self._pool.asking.submit(order, list if only is None else _first)
        found = self._pool.asking.call(order)
        return found if only is None else found[0]

    def execute_model(self, scheduled: Any, non_block: bool = False) -> Any:
        """One step of the model: the result of the last stage's first rank.

        With `settings.transfers` every rank is heard, and the result's `finished_sending` and
        `finished_receiving` name the requests that all ranks have finished.
        """
        timeout, rank = self.settings.execute_timeout, self._pool.shape.output_rank
        if not self.settings.transfers:
            return self.collective_rpc(
                "execute_model", timeout, (scheduled,), None, non_block, rank
            )
        order = Order.given("execute_model", timeout, (scheduled,))
        if non_block:
            return self._pool.asking.submit(order, self._aggregation.combine)
        return self._aggregation.combine(self._pool.asking.call(order))

    def take_draft_token_ids(self) -> Any:
        """The draft tokens of the last step, from the rank that has the results."""
        rank, timeout = self._pool.shape.output_rank, self.settings.execute_timeout
        return self.collective_rpc("take_draft_token_ids", timeout, unique_reply_rank=rank)

    def execute_dummy_batch(self) -> None:
        """A step without requests, to keep step with other replicas."""
        self.collective_rpc("execute_dummy_batch", self.settings.execute_timeout)

    def check_health(self, timeout: float | None = None) -> None:
        """Return if every worker gets on with its work.

        WorkerDied if one is not alive; NotProgressing if one is, and has been in the same call
        for the whole time. None: `settings.health_timeout`.
        """
        self._pool.check_health(self.settings.health_timeout if timeout is None else timeout)

    def on_failure(self, callback: Callable[[], None]) -> None:
        """Have it called, once, when the pool fails; at once if it has."""
        self._pool.watch.call_on_failure(callback)

    def shutdown(self) -> None:
        """End every worker: asked, then by SIGTERM, then by SIGKILL. Idempotent.

        Returns when they are gone. Outstanding futures and calls end with PoolClosed.
        """
        self._pool.stop()
        self._finalizer.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()


def _first(found: list[Any]) -> Any:
    return found[0]
