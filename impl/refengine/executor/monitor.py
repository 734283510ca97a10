"""The pool's monitor: one thread that notices every worker's end, and ends the pool (SPEC W3).

The monitor's thread alone decides that a worker failed, and how the others are brought to leave
(SPEC W5): no signal handler interrupts it. Other threads ask, and wait. The states of a pool only
go forward (SPEC W1).
"""

import contextlib
import logging
import select
from collections.abc import Callable
from enum import Enum, IntEnum

from ..base.cancel import OneShotEvent
from ..base.cleanup import OnceStartedThread
from ..base.clock import Clock, monotonic, poll_milliseconds
from ..base.liveness import hung_up
from ..base.ownership import remove_stale_names
from ..errors import RefengineError
from .errors import Failure, PoolClosed, StartFailed, WorkerDied, how_it_ended
from .nodes.head import FollowerNode
from .parent_monitor import LEAVE
from .process import Outcome, Process, has_ended, kill_group, send_signal
from .settings import PoolSettings
from .worker import FAILED, LEAVING, READY
from .workers import WorkerHandle, WorkerSet


class PoolState(IntEnum):
    """States of a pool, in the order in which they may follow each other."""

    STARTING = 0
    READY = 1
    """Every worker is ready; there was no call yet."""
    RUNNING = 2
    FAILED = 3
    STOPPING = 4
    STOPPED = 5


_FROM = {
    PoolState.READY: {PoolState.STARTING},
    PoolState.RUNNING: {PoolState.READY},
    PoolState.FAILED: {PoolState.STARTING, PoolState.READY, PoolState.RUNNING},
    PoolState.STOPPING: {PoolState.STARTING, PoolState.READY, PoolState.RUNNING, PoolState.FAILED},
    PoolState.STOPPED: {PoolState.STOPPING},
}


class Lifecycle:
    """The state of a pool; tells which caller was the first to take a step.

    Any thread may ask, a signal handler too. There is no lock, which an exception could leave held
    (SPEC R9): a mark in a dict is made whole or not at all, and the state is the furthest mark.
    """

    def __init__(self) -> None:
        self._marks: dict[PoolState, object] = {PoolState.STARTING: self}
        self.history = [PoolState.STARTING]
        """Every state that the pool has been in."""

    @property
    def state(self) -> PoolState:
        """The state that the pool is in."""
        return max(self._marks)

    def advance(self, to: PoolState) -> bool:
        """Enter a state if that is a step forward; return True to the one caller that did it."""
        mine = object()
        if self.state not in _FROM[to] or self._marks.setdefault(to, mine) is not mine:
            return False
        self.history.append(to)
        return True

    @property
    def ended(self) -> bool:
        """True if no call can be made any more."""
        return self.state >= PoolState.FAILED


class EscalationStep(Enum):
    """Act on each worker that is still there."""

    ASK = "ask"
    TERMINATE = "terminate"
    KILL = "kill"
    GIVE_UP = "give up"


class Escalation:
    """Plan by which workers are brought to leave: a request, then SIGTERM, then SIGKILL (SPEC W5).

    `step` takes a clock's reading and returns each step once, in order, when it is due.
    """

    def __init__(self, grace: float, term_grace: float, kill_grace: float, now: float) -> None:
        self._due = [
            (now, EscalationStep.ASK),
            (now + grace, EscalationStep.TERMINATE),
            (now + grace + term_grace, EscalationStep.KILL),
            (now + grace + term_grace + kill_grace, EscalationStep.GIVE_UP),
        ]

    @property
    def next_at(self) -> float | None:
        """Time at which the next step is due; None after the last."""
        return self._due[0][0] if self._due else None

    def step(self, now: float) -> EscalationStep | None:
        """Return the step that is due, if one is."""
        if self._due and now >= self._due[0][0]:
            return self._due.pop(0)[1]
        return None


_log = logging.getLogger(__name__)
_EXIT_KNOWN_WITHIN = 1.0  # by the worker's parent, which alone learns how it ended
_REAP_WITHIN = 1.0
_KILLED_WITHIN = 3.0
_JOIN_WITHIN = 1.0


class PoolMonitor:
    """Watches the workers of a pool, and the other node if there is one; ends them.

    `wake_callers` is called whenever no reply can come any more, `release` when every worker is
    gone.
    """

    def __init__(
        self,
        workers: WorkerSet,
        lifecycle: Lifecycle,
        settings: PoolSettings,
        wake_callers: Callable[[], None],
        release: Callable[[], None],
        clock: Clock = monotonic,
        node: FollowerNode | None = None,
    ) -> None:
        self._node = node
        self._workers, self._lifecycle, self._settings = workers, lifecycle, settings
        self._wake_callers, self._release, self._clock = wake_callers, release, clock
        self.ready, self.outcome_known = OneShotEvent(), OneShotEvent()
        self.finished = OneShotEvent()
        self._start_settled = OneShotEvent()  # READY or failed
        self._stop = OneShotEvent()
        self.failure: Failure | None = None
        self._escalation: Escalation | None = None
        self._thread = OnceStartedThread(self._run, "pool monitor")
        self.callbacks = [_OnceCallback(callback) for callback in settings.failure_callbacks]

    def start(self) -> None:
        """Begin to watch the workers that are there. Idempotent."""
        if not self.finished.is_set():
            self._thread.start()

    def await_ready(self, seconds: float | None) -> bool:
        """Wait until every worker is READY or one has failed; return False at the deadline."""
        return self._start_settled.wait(seconds)

    def error_for(self, operation: str) -> RefengineError | None:
        """Return the error of a call that cannot be made any more; None if it can."""
        if self.failure is not None:
            return self.failure(operation)
        return PoolClosed(operation) if self._lifecycle.ended else None

    def call_on_failure(self, callback: Callable[[], None]) -> None:
        """Have the monitor's thread call back once; call back now if the pool has failed."""
        once = _OnceCallback(callback)
        self.callbacks.append(once)
        if self.failure is not None:
            once()

    def any_worker_exiting(self) -> bool:
        """Return whether a worker has ended or soon will: a dying process closes its link first.

        Also True if the other node has, or may have.
        """
        if self._node is not None and self._node.exiting:
            return True
        return any(hung_up(m.link.sock) for m in self._workers.handles if m.link.fileno() >= 0)

    def stop(self) -> None:
        """End the pool, and wait until it has ended. Idempotent; any thread."""
        self._lifecycle.advance(PoolState.STOPPING)
        self._stop.set()
        self.start()
        if not self._thread.is_current():
            self.finished.wait(None)
            self._thread.join(_JOIN_WITHIN)

    # -- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            poller = self._poller()
            while not self._all_exited():
                now = self._clock()
                self._escalate(now)
                at = self._escalation.next_at if self._escalation else None
                if self._escalation and at is None:
                    break
                ready = poller.poll(None if at is None else poll_milliseconds(at - now) + 1)
                for fd, _ in ready:
                    if not self._handle_event(fd):
                        poller.unregister(fd)
        finally:
            self._finish()

    def _poller(self) -> select.poll:
        poller = select.poll()
        poller.register(self._stop.fileno(), select.POLLIN)
        if self._node is not None:
            poller.register(self._node.fileno(), select.POLLIN)
        for worker in self._workers.handles:
            poller.register(worker.link.fileno(), select.POLLIN)
            if worker.process is not None and worker.process.pidfd.fileno() >= 0:
                poller.register(worker.process.pidfd.fileno(), select.POLLIN)
        return poller

    def _handle_event(self, fd: int) -> bool:
        """Handle what is to be read; return False if nothing will be read here any more."""
        for worker in self._workers.handles:
            if fd == worker.link.fileno():
                return self._read_message(worker)
            if worker.process is not None and fd == worker.process.pidfd.fileno():
                while worker.link.has_message() and self._read_message(worker):
                    pass
                self._process_ended(worker, worker.process)
                return False
        if self._node is not None and fd == self._node.fileno():
            self._hear_node(self._node)
            return True
        return fd != self._stop.fileno()

    def _hear_node(self, node: FollowerNode) -> None:
        failures = node.hear()
        self._settle_if_ready()
        for failure in failures:
            self._fail(failure)

    def _settle_if_ready(self) -> None:
        """Settle the start once every worker is READY, those of the other node included."""
        here = all(m.replies_handle is not None for m in self._workers.handles)
        if here and (self._node is None or self._node.ready):
            self.ready.set()
            self._start_settled.set()

    def _read_message(self, worker: WorkerHandle) -> bool:
        try:
            (kind, detail), _ = worker.link.receive()
        except EOFError:
            if worker.process is not None and has_ended(worker.process, _EXIT_KNOWN_WITHIN):
                self._process_ended(worker, worker.process)
            return False
        if kind == READY:
            worker.replies_handle = detail
            self._settle_if_ready()
        elif kind == FAILED:
            worker.start_error = detail
            self._start_failed(worker, detail)
        elif kind == LEAVING:
            worker.exit_reason = detail
            self._worker_lost(worker, Outcome())
        return True

    def _start_failed(self, worker: WorkerHandle, detail: str) -> None:
        rank, pid = worker.rank, worker.pid
        if self._lifecycle.state == PoolState.STARTING:
            self._fail(lambda _: StartFailed(rank, pid, detail))
        else:  # the handshake failed in the worker, after it had succeeded here
            self._fail(lambda what: WorkerDied(rank, pid, what, exit_reason=detail))

    def _process_ended(self, worker: WorkerHandle, process: Process) -> None:
        if self._lifecycle.ended:
            return
        self._worker_lost(worker, process.outcome(_EXIT_KNOWN_WITHIN) or Outcome())

    def _worker_lost(self, worker: WorkerHandle, end: Outcome) -> None:
        rank, pid, why = worker.rank, worker.pid, worker.exit_reason
        if self._lifecycle.state == PoolState.STARTING and worker.replies_handle is None:
            how = f"it {how_it_ended(end.signal, end.status)} before it was READY"
            self._fail(lambda _: StartFailed(rank, pid, how))
        else:
            self._fail(lambda what: WorkerDied(rank, pid, what, end.signal, end.status, why))

    def _fail(self, failure: Failure) -> None:
        if self._lifecycle.ended:
            return
        self.failure = failure  # before the state that makes others ask for it
        if not self._lifecycle.advance(PoolState.FAILED):
            return
        _log.error("the pool has failed: %s", failure("the next call"))
        self.outcome_known.set()
        self._start_settled.set()
        self._wake_callers()
        for callback in list(self.callbacks):
            callback()

    def _escalate(self, now: float) -> None:
        """Take the steps that are due, once the pool is to end."""
        if self._escalation is None:
            if not self._lifecycle.ended and not self._stop.is_set():
                return
            loading = not self.ready.is_set()
            self._lifecycle.advance(PoolState.STOPPING)
            self.outcome_known.set()
            self._start_settled.set()
            self._wake_callers()
            # A worker reads no message before it is READY.
            grace = 0.0 if loading else self._settings.grace
            self._escalation = Escalation(grace, self._settings.term_grace, _KILLED_WITHIN, now)
        while (step := self._escalation.step(now)) is not None:
            for worker in self._workers.handles:
                if worker.process is not None and not has_ended(worker.process):
                    _apply_step(step, worker, worker.process)
            if self._node is not None and step is EscalationStep.ASK:
                self._node.leave()

    def _all_exited(self) -> bool:
        if self._escalation is None:
            return False
        if self._node is not None and not self._node.ended:
            return False
        return all(m.process is None or has_ended(m.process) for m in self._workers.handles)

    def _finish(self) -> None:
        self._lifecycle.advance(PoolState.STOPPING)
        try:
            for worker in self._workers.handles:
                if worker.process is not None:
                    kill_group(worker.process)
            for worker in self._workers.handles:
                if worker.process is not None:
                    worker.process.outcome(_REAP_WITHIN)
            self._release()
            if self._node is not None:
                self._node.close()
            self._workers.close()
            remove_stale_names()
        except Exception:
            _log.exception("the pool could not be taken down in good order")
        finally:
            self._lifecycle.advance(PoolState.STOPPED)
            self.outcome_known.set()
            self._start_settled.set()
            self.finished.set()


class _OnceCallback:
    """A callback that the first caller calls, and no other; its errors are logged."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._left = [callback]

    def __call__(self) -> None:
        with contextlib.suppress(IndexError):
            callback = self._left.pop()
            try:
                callback()
            except Exception:
                _log.exception("a failure callback failed")


def _apply_step(step: EscalationStep, worker: WorkerHandle, process: Process) -> None:
    if step is EscalationStep.ASK:
        worker.link.send(LEAVE)
    elif step is EscalationStep.TERMINATE:
        _log.warning("worker %d (pid %d) has not left; SIGTERM", worker.rank, process.pid)
        send_signal(process, 15)
    elif step is EscalationStep.KILL:
        _log.warning("worker %d (pid %d) is still there; SIGKILL", worker.rank, process.pid)
        kill_group(process)
    else:
        _log.error("worker %d (pid %d) does not die", worker.rank, process.pid)
