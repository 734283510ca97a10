"""A pool of worker processes that all run the same calls, in step (SPEC 5).

`Executor` is what a user holds, `Pool` the part that its clean-up may hold, too.
"""

import contextlib
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from multiprocessing.util import Finalize
from typing import Any, Self

from ..base.cleanup import append_atomically
from ..base.clock import Deadline
from ..errors import AttachFailed, DeadlinePassed
from ..queue import MessageQueue
from .errors import CallTimedOut, NotProgressing
from .monitor import Lifecycle, PoolMonitor, PoolState
from .nodes.head import FollowerNode
from .nodes.settings import NodeContext, ranks_of
from .rpc import OUTCOME_KNOWN_WITHIN, QUEUE_ENDED, Call, Method, Remaining, RpcChannel, RpcClient
from .settings import PoolSettings, WorkerSpec
from .workers import PoolShape, WorkerSet


class Executor:
    """Starts `world_size` workers and waits until all are READY.

    `worker` is a class, or "module:Class"; it is made as `worker(context, **options)` in each
    process (see `WorkerContext`), then `init_device()` and `load_model()` are called. Any other
    method is called by name; `shutdown()`, if there is one, when a worker leaves in good order.

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
        shape = PoolShape(world_size, tensor, device)
        self._aggregator = KVTransferAggregator(world_size, shape.output_rank)
        self._pool = pool = Pool(shape, WorkerSpec(worker, options or {}), settings)
        self._finalizer = Finalize(self, pool.stop, exitpriority=30)
        try:
            pool.start()
        except BaseException:
            pool.stop()
            raise

    @property
    def settings(self) -> PoolSettings:
        """Settings that the executor was made with."""
        return self._pool.settings

    @property
    def state(self) -> str:
        """State of the pool, as in SPEC W1."""
        return self._pool.lifecycle.state.name

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, by rank; of two nodes, of those on this one."""
        return self._pool.workers.pids()

    @property
    def max_concurrent_batches(self) -> int:
        """Number of non-blocking calls that may be under way."""
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
        """Run a method at every worker; return the results in rank order, or that of one rank.

        `method`: a name, or a function, which is sent by value and gets the worker as its first
        argument. `non_block`: return a future of the same, resolved in the order of the calls.

        Raises CallFailed (a worker's own error; the pool goes on), CallTimedOut (its late reply
        is dropped), WorkerDied (the pool has ended), PoolClosed; ValueError for a rank that is not
        there, before anything is sent.
        """
        only, world_size = unique_reply_rank, self._pool.shape.world_size
        if only is not None and not 0 <= only < world_size:
            raise ValueError(f"there is no rank {only}: of {world_size} workers, the first has 0")
        call = Call.begin(method, timeout, args, kwargs, only)
        if non_block:
            return self._pool.rpc.submit(call, list if only is None else _first)
        found = self._pool.rpc.call(call)
        return found if only is None else found[0]

    def execute_model(self, scheduled: Any, non_block: bool = False) -> Any:
        """Run one step of the model; return the result of the last stage's first rank.

        With `settings.transfers` every rank replies, and the result's `finished_sending` and
        `finished_receiving` name the requests that all ranks have finished. What a rank reports in
        a step that fails or times out counts, too.
        """
        timeout, rank = self.settings.execute_timeout, self._pool.shape.output_rank
        if not self.settings.transfers:
            return self.collective_rpc(
                "execute_model", timeout, (scheduled,), None, non_block, rank
            )
        call = Call.begin("execute_model", timeout, (scheduled,), observe=self._aggregator.record)
        if non_block:
            return self._pool.rpc.submit(call, self._aggregator.combine)
        return self._aggregator.combine(self._pool.rpc.call(call))

    def take_draft_token_ids(self) -> Any:
        """Return the draft tokens of the last step, from the rank that has the results."""
        rank, timeout = self._pool.shape.output_rank, self.settings.execute_timeout
        return self.collective_rpc("take_draft_token_ids", timeout, unique_reply_rank=rank)

    def execute_dummy_batch(self) -> None:
        """Run a step without requests, to keep step with other replicas."""
        self.collective_rpc("execute_dummy_batch", self.settings.execute_timeout)

    def check_health(self, timeout: float | None = None) -> None:
        """Return if every worker gets on with its work.

        WorkerDied if one is not alive; NotProgressing if one is, and has been in the same call
        for the whole time. None: `settings.health_timeout`.
        """
        self._pool.check_health(self.settings.health_timeout if timeout is None else timeout)

    def on_failure(self, callback: Callable[[], None]) -> None:
        """Have a callback called, once, when the pool fails; at once if it has failed."""
        self._pool.monitor.call_on_failure(callback)

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


_CLOSE_WITHIN = 0.2


class Pool:
    """Workers, monitor and queues of a pool: starts, fails, stops."""

    def __init__(self, shape: PoolShape, spec: WorkerSpec, settings: PoolSettings) -> None:
        self.shape, self._spec, self.settings = shape, spec, settings
        self.lifecycle = Lifecycle()
        self.node: FollowerNode | None = None
        """The other node, if the pool runs on two."""
        if settings.nodes is not None:
            self.node = FollowerNode(settings.nodes, shape, spec, settings)
        here = None if self.node is None else ranks_of(shape.world_size, head=True)
        self.workers = WorkerSet(shape, here)
        self.monitor = PoolMonitor(
            self.workers,
            self.lifecycle,
            settings,
            self._wake_callers,
            self._release,
            node=self.node,
        )
        self.rpc = RpcClient(self.lifecycle, self.monitor, settings.in_flight)
        self._queues: list[MessageQueue] = []
        self._pid = os.getpid()

    def start(self) -> None:
        """Wait until every worker is READY and connected. Raises StartFailed, or TimeoutError."""
        left = Deadline(self.settings.start_timeout, time.monotonic).remaining
        contexts: list[NodeContext] = [] if self.node is None else self.node.start()
        self.workers.start(self._spec, self.settings, contexts)
        self.monitor.start()
        self.monitor.await_ready(left())
        self._check_start()
        try:
            self._handshake(left)
        except (*QUEUE_ENDED, AttachFailed, DeadlinePassed) as error:
            self.monitor.outcome_known.wait(
                0.0 if isinstance(error, DeadlinePassed) else OUTCOME_KNOWN_WITHIN
            )
            self._check_start()
            raise
        if not self.lifecycle.advance(PoolState.READY):
            self._check_start()  # the pool ended in the last moment

    def _check_start(self) -> None:
        error = self.monitor.error_for("the start")
        if error is not None:
            raise error
        if not self.monitor.ready.is_set():
            late = [m.rank for m in self.workers.handles if m.replies_handle is None]
            who = f"worker {', '.join(map(str, late))} to be READY"
            if not late and self.node is not None:
                who = self.node.missing()
            raise DeadlinePassed(who, self.settings.start_timeout or 0)

    def _handshake(self, left: Remaining) -> None:
        """Connect the queues in the workers' own order: that of requests, then each of replies."""
        workers, queues, node = self.workers.handles, self._queues, self.node
        sizes = self.settings.max_chunk_bytes, self.settings.max_chunks
        handles = [worker.replies_handle for worker in workers]
        if node is None:
            append_atomically(queues, MessageQueue, len(workers), None, None, *sizes)
        else:
            append_atomically(queues, node.request_queue, len(workers), *sizes)
            handles += node.replies
        for handle in handles:
            append_atomically(queues, MessageQueue.create_from_handle, handle, 0)
        requests, replies = queues[0], queues[1:]
        for worker in workers:
            worker.link.send(requests.export_handle())
        if node is not None:
            node.connect(requests)
        for queue in (requests, *replies):
            self._check_start()
            queue.wait_until_ready(left())
        self.rpc.channel = RpcChannel(requests, replies)

    def check_health(self, timeout: float | None) -> None:
        """Return if every worker is there and gets on with its work; else raise which does not."""
        progress, workers = self.workers.progress, self.workers.handles
        before = [progress.done(worker.rank) for worker in workers]
        try:
            self.rpc.call(Call.begin("check_health", timeout))
        except TimeoutError as error:
            late = None  # it was not sent
            if isinstance(error, CallTimedOut):
                late = error.ranks or list(range(self.shape.world_size))  # none is known: any
            still = [
                each
                for each in workers
                if progress.done(each.rank) == before[each.rank]
                and (late is None or each.rank in late)
            ]
            far = () if self.node is None else self.node.ranks
            if still:
                # One that has nothing to do has done a call more than the one that is stuck in it.
                worker = min(still, key=lambda each: progress.done(each.rank))
                busy = progress.busy_for(worker.rank)
                if busy is not None or late is not None or not far:
                    seconds = timeout or 0
                    raise NotProgressing(worker.rank, worker.pid, busy or 0.0, seconds) from None
                raise  # it may have nothing to do, and wait for the other node
            if late is not None and not set(late).isdisjoint(far):
                raise  # the progress of a worker on the other node is not known here

    def stop(self) -> None:
        """End the pool; idempotent, from any thread. In a fork of the pool's process do nothing."""
        if os.getpid() == self._pid:
            self.monitor.stop()

    def _wake_callers(self) -> None:
        """Wake every call, because no reply will come; the monitor calls it."""
        for queue in list(self._queues):
            queue.shutdown()
        self.rpc.fail_pending()

    def _release(self) -> None:
        """Close the queues, because every worker is gone; the monitor calls it."""
        self.rpc.end()
        for queue in list(self._queues):
            with contextlib.suppress(Exception):
                queue.close(_CLOSE_WITHIN)


class _RankVotes:
    """Votes of the ranks on each request. An id may be used again before all have voted on it."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._votes: dict[str, Counter[int]] = {}

    def record(self, rank: int, names: Iterable[str] | None) -> set[str]:
        """Add the names of a rank; return those that all have named by now."""
        complete: set[str] = set()
        for name in names or ():
            votes = self._votes.setdefault(name, Counter())
            votes[rank] += 1
            if len(votes) == self._ranks:
                complete.add(name)
                left = votes - Counter(range(self._ranks))
                self._votes[name] = left
                if not left:
                    del self._votes[name]
        return complete


class KVTransferAggregator:
    """Makes one result of every rank's: the output rank's, with all ranks' finished transfers.

    A transfer is finished when every rank has reported it, in whichever step each does, be it one
    that failed at another rank or came too late. A result may have `finished_sending` and
    `finished_receiving`, sets of request ids. What is finished in a step without a result of the
    output rank is told with the next one.
    """

    def __init__(self, world_size: int, output_rank: int) -> None:
        self._output_rank = output_rank
        self._sent, self._received = _RankVotes(world_size), _RankVotes(world_size)
        self._untold: tuple[set[str], set[str]] = (set(), set())
        self._reports: deque[tuple[int, Any, Any]] = deque()  # not counted yet

    def record(self, rank: int, result: Any) -> None:
        """Take in what a rank reports with its result of a step; from any thread."""
        sent = getattr(result, "finished_sending", None)
        self._reports.append((rank, sent, getattr(result, "finished_receiving", None)))

    def combine(self, results: Sequence[Any]) -> Any:
        """Return the output rank's result of a step; each of the results was recorded before."""
        output = results[self._output_rank]
        sent, received = self._untold
        while self._reports:
            rank, now_sent, now_received = self._reports.popleft()
            sent |= self._sent.record(rank, now_sent)
            received |= self._received.record(rank, now_received)
        if output is not None:
            output.finished_sending, output.finished_receiving = sent, received
            self._untold = (set(), set())
        return output
