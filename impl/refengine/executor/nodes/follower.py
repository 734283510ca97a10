"""The second node's process: it starts ranks for the head, watches them, and ends with it."""

import contextlib
import logging
import os
import select
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from ...base.cleanup import append_atomically
from ...base.clock import Deadline, poll_milliseconds
from ...base.fds import Fd
from ...base.security import SocketFactory, is_ipv6
from ...transport import Client, Gone
from ...transport.io_thread import RETURN_WITHIN
from ..errors import StartFailed, WorkerDied
from ..monitor import Lifecycle, PoolMonitor, PoolState
from ..workers import WorkerSet
from .errors import how_it_went
from .protocol import (
    FOLLOWER,
    Leave,
    Left,
    RequestQueue,
    StartRefused,
    StartWorkers,
    ToHead,
    WorkerEnded,
    WorkersReady,
    decode,
    encode,
)
from .settings import NodeContext, NodeSettings, ranks_of

_log = logging.getLogger(__name__)
_CLOSE_WITHIN = 0.5
_CAUSE_KNOWN_WITHIN = RETURN_WITHIN + 0.5
"""Seconds from a worker that left by itself until the head's end, its cause perhaps, is noticed."""


@dataclass(frozen=True)
class _Stop:
    reason: str


@dataclass(frozen=True)
class _Refused:
    reason: str


@dataclass(frozen=True)
class _Failed:
    """The workers' monitor has noticed a failure."""


class Follower:
    """Runs the follower's workers; `run` returns when they are gone.

    Args:
        patience: seconds for the head to be there; None: no limit.
    """

    def __init__(self, nodes: NodeSettings, patience: float | None = None) -> None:
        self._nodes, self._patience = nodes, patience
        self._events: deque[Any] = deque()
        self._wakeup = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._clients: list[Client] = []
        self._pools: list[tuple[WorkerSet, Lifecycle, PoolMonitor]] = []
        self._said_ready = False

    def run(self) -> str:
        """Serve until the head says that the pool shuts down, or `stop`; return "" then.

        Otherwise return why it cannot go on: the head is gone or cut off, or a worker has ended.
        """
        append_atomically(self._clients, self._connect)
        try:
            while (cause := self._turn()) is None:
                pass
            return cause
        finally:
            for _, _, monitor in self._pools:
                monitor.stop()
            self._clients.pop().close(_CLOSE_WITHIN)

    def stop(self, reason: str) -> None:
        """Have `run` end the workers and return ""; from any thread, or a signal handler."""
        self._report(_Stop(reason))

    def pids(self) -> list[int]:
        """Return the process ids of the workers, in the order of their ranks."""
        return [pid for workers, _, _ in self._pools for pid in workers.pids()]

    # -- the main thread ----------------------------------------------------------------------

    def _turn(self) -> str | None:
        """Wait for an event, which comes at the latest with the session's end; handle it."""
        self._wait(None)
        self._say_if_ready()
        while self._events:
            cause = self._handle(self._events.popleft())
            if cause is not None:
                return cause
        return None

    def _wait(self, seconds: float | None) -> None:
        if self._events:
            return
        poller = select.poll()
        poller.register(self._wakeup.fileno(), select.POLLIN)
        if self._pools and not self._said_ready:
            poller.register(self._pools[0][2].ready.fileno(), select.POLLIN)
        poller.poll(None if seconds is None else poll_milliseconds(seconds))
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wakeup.fileno())

    def _say_if_ready(self) -> None:
        for workers, lifecycle, monitor in self._pools:
            if not self._said_ready and monitor.ready.is_set():
                self._said_ready = True
                lifecycle.advance(PoolState.READY)
                self._say(WorkersReady(tuple(each.replies_handle for each in workers.handles)))

    def _handle(self, event: Any) -> str | None:
        match event:
            case StartWorkers():
                return self._start_workers(event)
            case RequestQueue(handle):
                for workers, _, _ in self._pools:
                    for worker in workers.handles:
                        worker.link.send(handle)
            case Leave():
                return ""
            case _Stop(reason):
                self._say(Left(reason))
                return ""
            case _Failed():
                return self._failed()
            case _Refused(reason):
                return f"the head at {self._head} has refused this node: {reason}"
            case Gone():
                return f"the head at {self._head} {how_it_went(event)}"
            case _:
                self._say(Left(f"it was sent what it does not understand: {event!r}"))
                return f"the head has sent what this node does not understand: {event!r}"
        return None

    def _start_workers(self, order: StartWorkers) -> str | None:
        nodes, settings = self._nodes, order.settings
        ranks = ranks_of(order.shape.world_size, head=False)
        address, timeout = nodes.own_address, nodes.peer_timeout
        contexts = [NodeContext(ranks, False, address, timeout, link) for link in order.sum_links]
        lifecycle, workers = Lifecycle(), WorkerSet(order.shape, ranks)
        monitor = PoolMonitor(workers, lifecycle, settings, _nothing, _nothing)
        self._pools.append((workers, lifecycle, monitor))
        monitor.call_on_failure(lambda: self._report(_Failed()))
        try:
            workers.start(order.spec, settings, contexts)
        except Exception as error:
            _log.exception("the workers could not be started")
            self._say(Left(f"its workers could not be started: {error}"))
            return f"the workers could not be started: {error}"
        monitor.start()
        return None

    def _failed(self) -> str:
        """Tell the head which worker has failed; the head's own end may be the cause."""
        error = self._pools[0][2].error_for("the head's calls")
        by_itself = isinstance(error, WorkerDied) and error.exit_reason
        left = Deadline(_CAUSE_KNOWN_WITHIN if by_itself else 0.0, time.monotonic).remaining
        while True:
            while self._events:
                event = self._events.popleft()
                if isinstance(event, Gone | Leave | _Stop):
                    return self._handle(event) or ""
            seconds = left() or 0.0
            if seconds <= 0:
                break
            self._wait(seconds)
        if isinstance(error, WorkerDied):
            facts = error.rank, error.pid, error.signal, error.status, error.exit_reason
            self._say(WorkerEnded(*facts))
        elif isinstance(error, StartFailed):
            self._say(StartRefused(error.rank, error.pid, error.reason))
        return str(error)

    @property
    def _head(self) -> str:
        return f"{self._nodes.head}:{self._nodes.port}"

    def _say(self, message: ToHead) -> None:
        for client in self._clients:
            client.post(0, encode(message))

    def _connect(self) -> Client:
        nodes = self._nodes
        host = f"[{nodes.head}]" if is_ipv6(nodes.head) else nodes.head
        return Client(
            f"tcp://{host}:{nodes.port}",
            FOLLOWER,
            nodes.keys,
            self,
            sockets=SocketFactory(),
            peer_timeout=nodes.peer_timeout,
            patience=self._patience,
        )

    # -- the session's thread -----------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """See `transport.Listener`: the head's first message says what to do."""

    def message(self, rank: int, body: memoryview) -> None:
        """See `transport.Listener`."""
        self._report(decode(body))

    def gone(self, rank: int, how: Gone) -> None:
        """See `transport.Listener`."""
        self._report(how)

    def refused(self, rank: int, reason: str) -> None:
        """See `transport.Listener`."""
        self._report(_Refused(reason))

    def _report(self, event: Any) -> None:
        self._events.append(event)
        os.eventfd_write(self._wakeup.fileno(), 1)


def _nothing() -> None:
    """Do nothing: the queues are the workers' own."""
