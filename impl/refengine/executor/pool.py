"""A pool's inner half: started, called, failed, stopped. `Executor` is its face."""

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from ..end import countdown
from ..errors import (
    Busy,
    Cancelled,
    DeadlinePassed,
    NotReady,
    PeerDied,
    QueueClosed,
    RefengineError,
)
from ..guard import Guard
from ..keeping import keep
from ..queue import MessageQueue
from .calls import Calls, Left, timed_out
from .crew import Crew, Shape
from .errors import CallTimedOut, NotProgressing, PoolClosed
from .futures import InOrder, Pending, new_future
from .lifecycle import Lifecycle, State
from .settings import PoolSettings, WorkerSpec
from .watch import Watch

_VERDICT = 1.5  # from a queue's news of an end to the monitor's
_CLOSE = 0.2
_Lost = (Cancelled, QueueClosed, PeerDied, NotReady, Busy)
Method = str | Callable[..., Any]
First = Callable[[list[Any]], Any]


class Pool:
    """Everything of a pool, without the object that its user holds."""

    def __init__(self, shape: Shape, spec: WorkerSpec, settings: PoolSettings) -> None:
        self.shape, self._spec, self.settings = shape, spec, settings
        self.lifecycle = Lifecycle()
        self.crew = Crew(shape)
        self.watch = Watch(self.crew, self.lifecycle, settings, self._wake, self._give_back)
        self._queues: list[MessageQueue] = []
        self._calls: Calls | None = None
        self._in_order = InOrder(self._collect, self.watch.refusal)
        self._guard = Guard()
        self._pid = os.getpid()

    # -- start ------------------------------------------------------------------------------

    def start(self) -> None:
        """Until every worker is READY and met; StartFailed, or TimeoutError."""
        left = countdown(self.settings.start_timeout, time.monotonic)
        self.crew.start(self._spec, self.settings)
        self.watch.start()
        self.watch.await_ready(left())
        self._check_start()
        try:
            self._meet(left)
        except (*_Lost, DeadlinePassed) as error:
            self.watch.decided.wait(0.0 if isinstance(error, DeadlinePassed) else _VERDICT)
            self._check_start()
            raise
        self.lifecycle.advance(State.READY)

    def _check_start(self) -> None:
        refusal = self.watch.refusal("the start")
        if refusal is not None:
            raise refusal
        if not self.watch.ready.is_set():
            late = [m.rank for m in self.crew.members if m.handle is None]
            raise DeadlinePassed(
                f"worker {', '.join(map(str, late))} to be READY", self.settings.start_timeout or 0
            )

    def _meet(self, left: Left) -> None:
        """Both sides in the same order: the queue of requests, then each one of replies."""
        settings, members, queues = self.settings, self.crew.members, self._queues
        keep(
            queues, MessageQueue, len(members), None, None,
            settings.max_chunk_bytes, settings.max_chunks,
        )  # fmt: skip
        for member in members:
            keep(queues, MessageQueue.create_from_handle, member.handle, 0)
        requests, replies = queues[0], queues[1:]
        for member in members:
            member.link.say(requests.export_handle())
        for queue in (requests, *replies):
            self._check_start()
            queue.wait_until_ready(left())
        self._calls = Calls(requests, replies)

    # -- calls ------------------------------------------------------------------------------

    def call(
        self,
        method: Method,
        timeout: float | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        only: int | None,
    ) -> list[Any]:
        """Run it at every worker; what they, or the one rank, answer."""
        guard, name = self._guard, _name(method)
        left = countdown(timeout, time.monotonic)
        if guard.inside:
            guard.refuse(name, _patience(left))
        try:
            if not guard.acquire(False) and not guard.acquire(timeout=_patience(left)):
                raise Busy(name)
            guard.inside = True
            calls = self._able(name)
            if self._in_order.pending:
                future = self._submit(calls, method, timeout, args, kwargs, only, list)
            else:
                ranks = calls.ranks if only is None else (only,)
                number = self._ask(calls, method, args, kwargs, only, left, timeout)
                found = self._collect(number, name, ranks, left, timeout)
                guard.release()
                guard.inside = False
                return found
            guard.leave()
        except BaseException:
            guard.leave()
            raise
        try:
            return future.result(left())
        except TimeoutError as error:
            if isinstance(error, RefengineError):
                raise
            ranks = calls.ranks if only is None else [only]
            raise CallTimedOut(ranks, name, timeout or 0.0) from None

    def submit(
        self,
        method: Method,
        timeout: float | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        only: int | None,
        shape: First,
    ) -> "Future[Any]":
        """The same, without waiting for the replies; `shape` makes the value of them."""
        guard, name = self._guard, _name(method)
        left = countdown(timeout, time.monotonic)
        if guard.inside:
            guard.refuse(name, _patience(left))
        try:
            if not guard.acquire(False) and not guard.acquire(timeout=_patience(left)):
                raise Busy(name)
            guard.inside = True
            calls = self._able(name)
            future = self._submit(calls, method, timeout, args, kwargs, only, shape)
            guard.leave()
        except BaseException:
            guard.leave()
            raise
        return future

    def _submit(
        self,
        calls: Calls,
        method: Method,
        timeout: float | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        only: int | None,
        shape: First,
    ) -> "Future[Any]":
        left = countdown(timeout, time.monotonic)
        self._await_a_place(left, _name(method), timeout)
        number = self._ask(calls, method, args, kwargs, only, left, timeout)
        ranks = calls.ranks if only is None else (only,)
        future = new_future()
        pending = Pending(number, _name(method), ranks, left, timeout, shape, future)
        self._in_order.add(pending)
        if (refusal := self.watch.refusal(pending.method)) is not None:
            self._in_order.end(lambda _: refusal)  # it failed meanwhile
        return future

    def _await_a_place(self, left: Left, name: str, timeout: float | None) -> None:
        while len(self._in_order.pending) >= self.settings.in_flight:
            oldest = self._in_order.oldest()
            if oldest is None:
                return
            try:
                oldest.exception(left())
            except TimeoutError:
                raise DeadlinePassed(f"a place for {name} in flight", timeout or 0) from None

    def _able(self, name: str) -> Calls:
        refusal = self.watch.refusal(name)
        if refusal is not None:
            raise refusal
        if self._calls is None:
            raise NotReady(name)
        if self.lifecycle.state is State.READY:
            self.lifecycle.advance(State.RUNNING)
        return self._calls

    def _ask(
        self,
        calls: Calls,
        method: Method,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        only: int | None,
        left: Left,
        timeout: float | None,
    ) -> int:
        word = method if isinstance(method, str) else _pickled(method)
        in_turn = not self._in_order.pending
        try:
            return calls.ask(word, args, kwargs, only, left(), in_turn=in_turn)
        except _Lost as error:
            raise self._verdict(error, _name(method)) from error
        except DeadlinePassed:
            raise DeadlinePassed("a worker to take a request", timeout or 0) from None

    def _collect(
        self, number: int, name: str, ranks: Sequence[int], left: Left, timeout: float | None
    ) -> list[Any]:
        assert self._calls is not None
        try:
            return self._calls.replies(number, name, ranks, left)
        except _Lost as error:
            raise self._verdict(error, name) from error
        except DeadlinePassed:
            raise timed_out(self._calls, number, name, timeout) from None

    def _verdict(self, error: RefengineError, name: str) -> BaseException:
        """A queue has ended: the monitor knows why, or is about to."""
        self.watch.decided.wait(_VERDICT)
        return self.watch.refusal(name) or error

    # -- health -----------------------------------------------------------------------------

    def check_health(self, timeout: float | None) -> None:
        """Every worker is there and gets on with its work, or an error says which does not."""
        before = [self.crew.page.done(rank) for rank in range(self.shape.world_size)]
        try:
            self.call("check_health", timeout, (), {}, None)
        except TimeoutError:
            for member in self.crew.members:
                busy = self.crew.page.busy_for(member.rank)
                stands = self.crew.page.done(member.rank) == before[member.rank]
                if stands:
                    raise NotProgressing(
                        member.rank, member.pid, busy or 0.0, timeout or 0.0
                    ) from None

    # -- end --------------------------------------------------------------------------------

    def stop(self) -> None:
        """End it all; idempotent, from any thread."""
        if os.getpid() == self._pid:
            self.watch.stop()

    def _wake(self) -> None:
        """The monitor's: nothing will be answered any more."""
        for queue in list(self._queues):
            queue.shutdown()
        if self._in_order.pending:
            self._in_order.end(lambda name: self.watch.refusal(name) or PoolClosed(name))

    def _give_back(self) -> None:
        """The monitor's: every worker is gone."""
        self._in_order.end(PoolClosed)
        for queue in list(self._queues):
            with contextlib.suppress(Exception):
                queue.close(_CLOSE)


def _patience(left: Left) -> float:
    """How long to wait for another thread's call; as `acquire` takes it."""
    seconds = left()
    return -1 if seconds is None else max(0.0, seconds)


def _name(method: Method) -> str:
    return method if isinstance(method, str) else getattr(method, "__name__", repr(method))


def _pickled(method: Callable[..., Any]) -> bytes:
    """A function by value; only who calls one needs the library."""
    return importlib.import_module("cloudpickle").dumps(method)
