"""Asking the workers: whose turn it is, and what becomes of an answer (SPEC W2, W8)."""

import importlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

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
from .calls import Calls, Left
from .errors import CallFailed, CallTimedOut, PoolClosed
from .futures import InOrder, Pending, new_future
from .lifecycle import Lifecycle, State
from .watch import Watch

_VERDICT = 1.5
"""Seconds from a queue's news of an end to the monitor's."""
LOST = (Cancelled, QueueClosed, PeerDied, NotReady, Busy)
"""A queue is at its end."""
Method = str | Callable[..., Any]
Shape = Callable[[list[Any]], Any]


class Order(NamedTuple):
    """One call, and the seconds it has left."""

    method: Method
    timeout: float | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    only: int | None
    """The one rank that answers; None: all do."""
    left: Left

    @classmethod
    def given(
        cls,
        method: Method,
        timeout: float | None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        only: int | None = None,
    ) -> "Order":
        """From now on its time runs."""
        left = countdown(timeout, time.monotonic)
        return cls(method, timeout, args, {} if kwargs is None else kwargs, only, left)

    @property
    def name(self) -> str:
        """For people."""
        method = self.method
        return method if isinstance(method, str) else getattr(method, "__name__", repr(method))

    @property
    def patience(self) -> float:
        """How long to wait for another thread's call; as a lock's `acquire` takes it."""
        seconds = self.left()
        return -1 if seconds is None else max(0.0, seconds)


class Asking:
    """The calling half of a pool. A call that waits takes its replies itself, if it can."""

    def __init__(self, lifecycle: Lifecycle, watch: Watch, in_flight: int) -> None:
        self.calls: Calls | None = None
        """Once every worker has been met."""
        self._lifecycle, self._watch, self._in_flight = lifecycle, watch, in_flight
        self._in_order = InOrder(self._collect, watch.refusal)
        self._guard = Guard()

    def call(self, order: Order) -> list[Any]:
        """What every worker answers, or the one that was asked."""
        guard = self._guard
        if guard.inside:
            guard.refuse(order.name, order.patience)
        try:
            if not guard.acquire(False) and not guard.acquire(timeout=order.patience):
                raise Busy(order.name)
            guard.inside = True
            calls = self._able(order)
            if self._in_order.pending:
                future = self._submit(calls, order, list)
            else:
                number = self._ask(calls, order)
                ranks = calls.ranks if order.only is None else (order.only,)
                found = self._collect(number, order.name, ranks, order.left, order.timeout)
                guard.release()
                guard.inside = False
                return found
            guard.leave()
        except BaseException:
            guard.leave()
            raise
        return self._await(calls, order, future)

    def submit(self, order: Order, shape: Shape) -> "Future[Any]":
        """The same without waiting for answers; `shape` makes the future's value of them."""
        guard = self._guard
        if guard.inside:
            guard.refuse(order.name, order.patience)
        try:
            if not guard.acquire(False) and not guard.acquire(timeout=order.patience):
                raise Busy(order.name)
            guard.inside = True
            future = self._submit(self._able(order), order, shape)
            guard.leave()
        except BaseException:
            guard.leave()
            raise
        return future

    def refuse_pending(self) -> None:
        """The monitor's: nothing that is under way will be answered."""
        if self._in_order.pending:
            self.end()

    def end(self) -> None:
        """The monitor's: no answers will come at all."""
        self._in_order.end(lambda name: self._watch.refusal(name) or PoolClosed(name))

    def verdict(self, error: RefengineError, name: str) -> RefengineError:
        """What a queue's end means: the monitor knows, or is about to."""
        self._watch.decided.wait(_VERDICT)
        return self._watch.refusal(name) or error

    def _able(self, order: Order) -> Calls:
        refusal = self._watch.refusal(order.name)
        if refusal is not None:
            raise refusal
        if self.calls is None:
            raise NotReady(order.name)
        if self._lifecycle.state is State.READY:
            self._lifecycle.advance(State.RUNNING)
        return self.calls

    def _submit(self, calls: Calls, order: Order, shape: Shape) -> "Future[Any]":
        self._await_a_place(order)
        number = self._ask(calls, order)
        ranks = calls.ranks if order.only is None else (order.only,)
        future = new_future()
        pending = Pending(number, order.name, ranks, order.left, order.timeout, shape, future)
        self._in_order.add(pending)
        if self._watch.refusal(order.name) is not None:
            self.end()  # it ended meanwhile
        return future

    def _await_a_place(self, order: Order) -> None:
        while len(self._in_order.pending) >= self._in_flight:
            oldest = self._in_order.oldest()
            if oldest is None:
                return
            self._in_order.ring()
            try:
                oldest.exception(order.left())
            except TimeoutError:
                place = f"a place for {order.name} in flight"
                raise DeadlinePassed(place, order.timeout or 0) from None

    def _await(self, calls: Calls, order: Order, future: "Future[Any]") -> list[Any]:
        try:
            return future.result(order.left())
        except TimeoutError as error:
            if isinstance(error, RefengineError):
                raise
            ranks = calls.ranks if order.only is None else [order.only]
            raise CallTimedOut(ranks, order.name, order.timeout or 0.0) from None

    def _ask(self, calls: Calls, order: Order) -> int:
        method = order.method if isinstance(order.method, str) else _pickled(order.method)
        in_turn = not self._in_order.pending
        try:
            return calls.ask(
                method, order.args, order.kwargs, order.only, order.left(), in_turn=in_turn
            )
        except LOST as error:
            raise self.verdict(error, order.name) from error
        except DeadlinePassed:
            raise DeadlinePassed("a worker to take a request", order.timeout or 0) from None

    def _collect(
        self, number: int, name: str, ranks: Sequence[int], left: Left, timeout: float | None
    ) -> list[Any]:
        assert self.calls is not None
        try:
            return self.calls.replies(number, name, ranks, left)
        except LOST as error:
            raise self.verdict(error, name) from error
        except CallFailed as error:
            if self._watch.somebody_goes():  # and others fail of it, in a collective
                raise self.verdict(error, name) from error
            raise
        except DeadlinePassed:
            raise CallTimedOut(self.calls.missing(number), name, timeout or 0.0) from None


def _pickled(method: Callable[..., Any]) -> bytes:
    """A function by value; only who calls one needs the library."""
    return importlib.import_module("cloudpickle").dumps(method)
