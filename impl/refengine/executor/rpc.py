"""Remote calls to the workers: requests, replies, futures, deadlines (SPEC W2, W8).

`RpcChannel` numbers each call, and a number is used once. A reply to another call than the one
that is waited for belongs to a call that was given up, and is dropped, though a call may have an
observer, which is told its results all the same; the replies of a rank come in the order of its
calls. `OrderedReplies` resolves the futures of calls that do not wait: one
thread takes their replies, in the order of the calls. `RpcClient` gives one thread at a time the
turn to call.
"""

import contextlib
import importlib
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..base.cleanup import OnceStartedThread
from ..base.clock import Deadline
from ..base.reentrancy import ReentrancyGuard
from ..errors import (
    Busy,
    Cancelled,
    DeadlinePassed,
    NotReady,
    PeerDied,
    PeerSilent,
    QueueClosed,
    RefengineError,
    Undecodable,
)
from ..queue import MessageQueue
from .errors import CallFailed, CallTimedOut, PoolClosed
from .messages import partial_decode
from .monitor import Lifecycle, PoolMonitor, PoolState

_POLL_INTERVAL = 0.02
Remaining = Callable[[], float | None]
Observe = Callable[[int, Any], None]
"""Function that is told each result of a call as it is read: rank, result."""


class RpcChannel:
    """The parent's ends of the queues. One thread at a time sends requests, one reads replies."""

    def __init__(self, requests: MessageQueue, replies: Sequence[MessageQueue]) -> None:
        self._enqueue = requests.enqueue
        self._dequeues = [queue.dequeue for queue in replies]
        self.ranks = list(range(len(replies)))
        self._number = 0
        self._last_call = [0 for _ in replies]  # number of the last call to each rank
        self._last_reply = [0 for _ in replies]  # and of the last one that it answered
        self._observers: dict[int, Observe] = {}  # by call

    def send(
        self,
        method: str | bytes,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        only: int | None,
        timeout: float | None,
        *,
        in_turn: bool = True,
        observe: Observe | None = None,
    ) -> int:
        """Publish a request and return its number. All or nothing, as `enqueue`.

        `in_turn`: no other thread reads replies now, so that this one may drop those that are left
        over. They could fill a worker's queue, and the worker would never read this request.
        `observe`: is told every rank's result, even one that is dropped, by the thread that reads.
        """
        number = self._number = self._number + 1
        if observe is not None:
            self._add_observer(number, observe)
        request = (number, method, args, kwargs, only)
        if in_turn and self._last_call != self._last_reply:
            self._send_between_replies(request, timeout)
        else:
            self._enqueue(request, timeout)
        if only is None:
            self._last_call = [number] * len(self._last_call)
        else:
            self._last_call[only] = number
        return number

    def _add_observer(self, number: int, observe: Observe) -> None:
        """Add the observer of a call; forget those of calls that every rank has left behind."""
        oldest = min(self._last_reply)
        kept = {call: each for call, each in self._observers.items() if call > oldest}
        self._observers = {**kept, number: observe}  # whole: another thread may be reading

    def _send_between_replies(self, request: object, timeout: float | None) -> None:
        left = Deadline(timeout, time.monotonic).remaining
        while True:
            for rank in self.ranks:
                self._drop_until(self._last_call[rank], rank)
            seconds = left()
            late = seconds is not None and seconds <= _POLL_INTERVAL
            try:
                self._enqueue(
                    request, _POLL_INTERVAL if seconds is None else min(_POLL_INTERVAL, seconds)
                )
            except DeadlinePassed:
                if late:
                    raise DeadlinePassed("a worker to take a request", timeout or 0) from None
            else:
                return

    def _drop_until(self, number: int, rank: int) -> None:
        """Read and drop the replies that are there, up to that call's; no call waits for them."""
        try:
            while self._last_reply[rank] < number:
                self._read(rank, 0.0)
        except DeadlinePassed:
            pass

    def collect(self, number: int, method: str, ranks: Sequence[int], left: Remaining) -> list[Any]:
        """Wait for the replies of these ranks to that call; return their results in this order.

        Raises CallFailed for the first that failed, DeadlinePassed once `left()` is not positive.
        """
        found: list[Any] = []
        for rank in ranks:
            got, well, value = self._read(rank, left())
            while got != number:
                got, well, value = self._read(rank, left())
            if not well:
                raise CallFailed(rank, method, *value)
            found.append(value)
        return found

    def unanswered(self, number: int, ranks: Sequence[int]) -> list[int]:
        """Return those of these ranks that did not answer that call, whose `collect` was too late.

        It waited for the first of them. Behind that one others may have answered: their replies
        are read as well, but none to a later call.
        """
        late = [rank for rank in ranks if self._last_reply[rank] < number]
        for rank in late[1:]:
            self._drop_until(number, rank)
        return [rank for rank in late if self._last_reply[rank] < number]

    def _read(self, rank: int, seconds: float | None) -> tuple[int, bool, Any]:
        try:
            reply = self._dequeues[rank](seconds)
        except Undecodable as error:
            reply = _undecodable(error)
        number, well, value = reply
        if well and number in self._observers:
            self._observers[number](rank, value)
        self._last_reply[rank] = number  # last: from then on the observer may be forgotten
        return reply


def _undecodable(error: Undecodable) -> tuple[int, bool, Any]:
    found = partial_decode(getattr(error, "undecoded", b""))
    if found is None:
        raise error
    cause = error.__cause__
    return found[0], False, (f"its result cannot be decoded here: {cause!r}", "")


Collect = Callable[[int, str, Sequence[int], Remaining, float | None], list[Any]]
"""Function that waits for the replies to a call: number, method, ranks, seconds left, timeout."""
_JOIN_WITHIN = 1.0


@dataclass(frozen=True)
class PendingCall:
    """A call under way. `combine` makes the future's value of the replies."""

    number: int
    method: str
    ranks: Sequence[int]
    left: Remaining
    timeout: float | None
    combine: Callable[[list[Any]], Any]
    future: "Future[Any]"


class OrderedReplies:
    """Resolves futures one after the other. While one is pending its thread alone reads replies."""

    def __init__(self, collect: Collect, error_for: Callable[[str], BaseException | None]) -> None:
        self._collect, self._error_for = collect, error_for
        self._wakeups: queue.SimpleQueue[bool] = queue.SimpleQueue()  # False: the thread is to end
        self.pending: deque[PendingCall] = deque()
        self._thread = OnceStartedThread(self._run, "pool replies")

    def add(self, pending: PendingCall) -> None:
        """Have the thread wait for the replies of this call."""
        self.pending.append(pending)
        self.wake()

    def wake(self) -> None:
        """Have the thread resolve everything that is pending; start the thread if there is none.

        A caller that waits for a slot calls it again: an exception from outside may have struck
        between the two halves of `add`, and no other thread would read those replies (SPEC R9).
        """
        self._wakeups.put(True)
        self._thread.start()

    def oldest(self) -> "Future[Any] | None":
        """Return the future that is resolved next; None if none is pending."""
        with contextlib.suppress(IndexError):
            return self.pending[0].future
        return None

    def runs_caller(self) -> bool:
        """Return whether the thread is the caller's own, which runs a future's callback."""
        return self._thread.is_current()

    def end(self, error: Callable[[str], BaseException]) -> None:
        """End the thread; each future that is still pending gets the error."""
        self._wakeups.put(False)
        if not self.runs_caller():
            self._thread.join(_JOIN_WITHIN)
        while self.pending:
            pending = self.pending.popleft()
            _settle(pending.future.set_exception, error(pending.method))

    def _run(self) -> None:
        while self._wakeups.get():
            while self.pending:
                with contextlib.suppress(IndexError):  # the end took it
                    self._resolve_call(self.pending[0])

    def _resolve_call(self, pending: PendingCall) -> None:
        try:
            found = self._collect(
                pending.number, pending.method, pending.ranks, pending.left, pending.timeout
            )
            value = pending.combine(found)
        except BaseException as error:
            self._remove(pending)
            _settle(pending.future.set_exception, error)
        else:
            self._remove(pending)
            _settle(pending.future.set_result, value)

    def _remove(self, pending: PendingCall) -> None:
        """Forget the call before its waiter wakes, whose next call may then read replies itself."""
        with contextlib.suppress(ValueError):
            self.pending.remove(pending)


def new_future() -> "Future[Any]":
    """Return a future that cannot be cancelled: the workers are at it."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def _settle(setter: Callable[[Any], None], value: Any) -> None:
    with contextlib.suppress(InvalidStateError):
        setter(value)


_LATE_KNOWN_WITHIN = 0.1
"""Seconds from a call's deadline until the thread that reads its replies has told who is late."""
OUTCOME_KNOWN_WITHIN = 1.5
"""Seconds from the end of a queue until the monitor knows of the end of a worker."""
QUEUE_ENDED = (Cancelled, QueueClosed, PeerDied, PeerSilent, NotReady, Busy)
"""Errors of a queue that has ended."""
Method = str | Callable[..., Any]
Combine = Callable[[list[Any]], Any]


class Call(NamedTuple):
    """One call, and the time that it has left."""

    method: Method
    timeout: float | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    only: int | None
    """Rank that alone answers; None: all do."""
    left: Remaining
    observe: Observe | None = None
    """Is told every result, even if the call fails or ends before it comes."""

    @classmethod
    def begin(
        cls,
        method: Method,
        timeout: float | None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        only: int | None = None,
        observe: Observe | None = None,
    ) -> "Call":
        """Make a call whose time runs from now on."""
        left = Deadline(timeout, time.monotonic).remaining
        return cls(method, timeout, args, {} if kwargs is None else kwargs, only, left, observe)

    @property
    def name(self) -> str:
        """Name of the method, for texts."""
        method = self.method
        return method if isinstance(method, str) else getattr(method, "__name__", repr(method))

    @property
    def lock_timeout(self) -> float:
        """Seconds to wait for another thread's call, as for a lock's `acquire`; -1: no limit."""
        seconds = self.left()
        return -1 if seconds is None else max(0.0, seconds)


class RpcClient:
    """The calling half of a pool. A call that waits reads its replies itself, if it can."""

    def __init__(self, lifecycle: Lifecycle, monitor: PoolMonitor, in_flight: int) -> None:
        self.channel: RpcChannel | None = None
        """The queues, once the handshake with every worker is done."""
        self._lifecycle, self._monitor, self._in_flight = lifecycle, monitor, in_flight
        self._ordered = OrderedReplies(self._collect, monitor.error_for)
        self._guard = ReentrancyGuard()

    def call(self, call: Call) -> list[Any]:
        """Send a call and wait; return the results of every worker, or of the one that replies.

        RuntimeError in a future's callback, while others are pending: their thread would wait for
        itself.
        """
        self._check_thread(call, 1)
        guard = self._guard
        if guard.held:
            guard.raise_busy(call.name, call.lock_timeout)
        try:
            if not guard.acquire(False) and not guard.acquire(timeout=call.lock_timeout):
                raise Busy(call.name)
            guard.held = True
            channel = self._open_channel(call)
            if self._ordered.pending:
                self._check_thread(call, 1)
                future = self._submit(channel, call, list)
            else:
                number = self._send(channel, call)
                ranks = channel.ranks if call.only is None else (call.only,)
                found = self._collect(number, call.name, ranks, call.left, call.timeout)
                guard.release()
                guard.held = False
                return found
            guard.exit()
        except BaseException:
            guard.exit()
            raise
        return self._wait_for(call, future)

    def submit(self, call: Call, combine: Combine) -> "Future[Any]":
        """Send a call without waiting for replies; `combine` makes the future's value of them.

        RuntimeError in a future's callback, while there is no room for another one.
        """
        self._check_thread(call, self._in_flight)
        guard = self._guard
        if guard.held:
            guard.raise_busy(call.name, call.lock_timeout)
        try:
            if not guard.acquire(False) and not guard.acquire(timeout=call.lock_timeout):
                raise Busy(call.name)
            guard.held = True
            future = self._submit(self._open_channel(call), call, combine)
            guard.exit()
        except BaseException:
            guard.exit()
            raise
        return future

    def fail_pending(self) -> None:
        """Fail every pending call, because no reply will come; the monitor calls it."""
        if self._ordered.pending:
            self.end()

    def end(self) -> None:
        """End the futures' thread and fail what is pending; the monitor calls it."""
        self._ordered.end(lambda name: self._monitor.error_for(name) or PoolClosed(name))

    def explain(self, error: RefengineError, name: str) -> RefengineError:
        """Return the cause of a queue's end, which the monitor knows or is about to know."""
        self._monitor.outcome_known.wait(OUTCOME_KNOWN_WITHIN)
        return self._monitor.error_for(name) or error

    def _open_channel(self, call: Call) -> RpcChannel:
        error = self._monitor.error_for(call.name)
        if error is not None:
            raise error
        if self.channel is None:
            raise NotReady(call.name)
        if self._lifecycle.state is PoolState.READY:
            self._lifecycle.advance(PoolState.RUNNING)
        return self.channel

    def _submit(self, channel: RpcChannel, call: Call, combine: Combine) -> "Future[Any]":
        self._wait_for_slot(call)
        number = self._send(channel, call)
        ranks = channel.ranks if call.only is None else (call.only,)
        future = new_future()
        pending = PendingCall(number, call.name, ranks, call.left, call.timeout, combine, future)
        self._ordered.add(pending)
        if self._monitor.error_for(call.name) is not None:
            self.end()  # the pool ended meanwhile
        return future

    def _check_thread(self, call: Call, most: int) -> None:
        """Refuse to wait, in a future's callback, for what only the callback's thread can do."""
        if len(self._ordered.pending) >= most and self._ordered.runs_caller():
            raise RuntimeError(
                f"{call.name}: a future's callback cannot wait while other futures are pending, "
                "because it runs in the thread that resolves them; call it in another thread"
            )

    def _wait_for_slot(self, call: Call) -> None:
        self._check_thread(call, self._in_flight)
        while len(self._ordered.pending) >= self._in_flight:
            oldest = self._ordered.oldest()
            if oldest is None:
                return
            self._ordered.wake()
            try:
                oldest.exception(call.left())
            except TimeoutError:
                slot = f"a place for {call.name} in flight"
                raise DeadlinePassed(slot, call.timeout or 0) from None

    def _wait_for(self, call: Call, future: "Future[Any]") -> list[Any]:
        """Wait behind other calls; while replies to one of them are read, nobody is known late."""
        try:
            return future.result(call.left())
        except TimeoutError as error:
            if isinstance(error, RefengineError):
                raise
        behind = self._ordered.oldest() not in (None, future)
        try:
            return future.result(0.0 if behind else _LATE_KNOWN_WITHIN)
        except TimeoutError as error:
            if isinstance(error, RefengineError):
                raise
            raise CallTimedOut([], call.name, call.timeout or 0.0) from None

    def _send(self, channel: RpcChannel, call: Call) -> int:
        method = call.method if isinstance(call.method, str) else _pickle_by_value(call.method)
        in_turn = not self._ordered.pending
        try:
            return channel.send(
                method,
                call.args,
                call.kwargs,
                call.only,
                call.left(),
                in_turn=in_turn,
                observe=call.observe,
            )
        except QUEUE_ENDED as error:
            raise self.explain(error, call.name) from error
        except DeadlinePassed:
            raise DeadlinePassed("a worker to take a request", call.timeout or 0) from None

    def _collect(
        self, number: int, name: str, ranks: Sequence[int], left: Remaining, timeout: float | None
    ) -> list[Any]:
        channel = self.channel
        assert channel is not None
        try:
            try:
                return channel.collect(number, name, ranks, left)
            except DeadlinePassed:
                late = channel.unanswered(number, ranks)
                raise CallTimedOut(late, name, timeout or 0.0) from None
        except QUEUE_ENDED as error:
            raise self.explain(error, name) from error
        except CallFailed as error:
            if self._monitor.any_worker_exiting():  # perhaps its cause
                raise self.explain(error, name) from error
            raise


def _pickle_by_value(method: Callable[..., Any]) -> bytes:
    """Pickle a function by value; only a caller that passes one needs the library."""
    return importlib.import_module("cloudpickle").dumps(method)
