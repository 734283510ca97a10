"""The pool's monitor: one thread that hears of every worker's end, and ends the pool (SPEC W3).

Whatever decides a pool's fate is decided here, where no signal handler interrupts: that a worker
failed, and how the others are brought to leave. Other threads ask, and wait.
"""

import contextlib
import logging
import select
import threading
from collections.abc import Callable

from ..clock import Clock, monotonic
from ..errors import RefengineError
from ..keeping import keep
from ..liveness import hung_up
from ..ownership import sweep
from .children import Outcome, Process, has_ended, kill_group, send
from .crew import Crew, Member
from .errors import PoolClosed, StartFailed, WorkerDied, how_it_ended
from .escalation import Escalation, Step
from .flag import Flag
from .lifecycle import Lifecycle, State
from .settings import PoolSettings
from .tether import LEAVE
from .worker import FAILED, LEAVING, READY

_log = logging.getLogger(__name__)
_TO_BE_TOLD = 1.0  # how it ended, by whoever is its parent
_TO_REAP = 1.0
_KILLED_WITHIN = 3.0
_TO_END = 1.0
Failure = Callable[[str], RefengineError]
"""Makes a fresh error for the operation that it ends."""


class Watch:
    """Watches a crew. `wake` is called whenever waiting for replies has become pointless."""

    def __init__(
        self,
        crew: Crew,
        lifecycle: Lifecycle,
        settings: PoolSettings,
        wake: Callable[[], None],
        give_back: Callable[[], None],
        clock: Clock = monotonic,
    ) -> None:
        self._crew, self._lifecycle, self._settings = crew, lifecycle, settings
        self._wake, self._give_back, self._clock = wake, give_back, clock
        self.ready, self.decided, self.over = Flag(), Flag(), Flag()
        self._news = Flag()  # READY or failed
        self._stop = Flag()
        self.failure: Failure | None = None
        self._escalation: Escalation | None = None
        self._threads: list[threading.Thread] = []
        self.callbacks = [_Once(callback) for callback in settings.failure_callbacks]

    def start(self) -> None:
        """Begin to watch those who are there. Said again, it changes nothing."""
        if not self._threads:
            keep(self._threads, _thread, self._run)
        if not self._threads[0].is_alive() and not self.over.is_set():
            self._threads[0].start()

    def await_ready(self, seconds: float | None) -> bool:
        """Until every worker is READY or one has failed; False at the deadline."""
        return self._news.wait(seconds)

    def refusal(self, operation: str) -> RefengineError | None:
        """Why no call can be made any more, if that is so."""
        if self.failure is not None:
            return self.failure(operation)
        return PoolClosed(operation) if self._lifecycle.over else None

    def call_on_failure(self, callback: Callable[[], None]) -> None:
        """Once, from the monitor's thread; from this one if the pool has failed."""
        once = _Once(callback)
        self.callbacks.append(once)
        if self.failure is not None:
            once()

    def somebody_goes(self) -> bool:
        """Whether a worker has ended, or is about to: a dying process closes its link first."""
        return any(hung_up(m.link.sock) for m in self._crew.members if m.link.fileno() >= 0)

    def stop(self) -> None:
        """End the pool: ask for it, and wait until it is done. Idempotent; any thread."""
        self._lifecycle.advance(State.STOPPING)
        self._stop.set()
        self.start()
        if threading.current_thread() is not self._threads[0]:
            self.over.wait(None)
            self._threads[0].join(_TO_END)

    # -- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            poller = self._poller()
            while not self._everybody_is_gone():
                now = self._clock()
                self._proceed(now)
                at = self._escalation.next_at if self._escalation else None
                if self._escalation and at is None:
                    break
                ready = poller.poll(None if at is None else max(0.0, at - now) * 1000 + 1)
                for fd, _ in ready:
                    if not self._hear(fd):
                        poller.unregister(fd)
        finally:
            self._finish()

    def _poller(self) -> select.poll:
        poller = select.poll()
        poller.register(self._stop.fileno(), select.POLLIN)
        for member in self._crew.members:
            poller.register(member.link.fileno(), select.POLLIN)
            if member.process is not None and member.process.pidfd.fileno() >= 0:
                poller.register(member.process.pidfd.fileno(), select.POLLIN)
        return poller

    def _hear(self, fd: int) -> bool:
        """Take news in; False if there will be none here any more."""
        for member in self._crew.members:
            if fd == member.link.fileno():
                return self._listen(member)
            if member.process is not None and fd == member.process.pidfd.fileno():
                while member.link.has_news() and self._listen(member):
                    pass
                self._ended(member, member.process)
                return False
        return fd != self._stop.fileno()

    def _listen(self, member: Member) -> bool:
        try:
            (word, about), _ = member.link.hear()
        except EOFError:
            if member.process is not None and has_ended(member.process, _TO_BE_TOLD):
                self._ended(member, member.process)
            return False
        if word == READY:
            member.handle = about
            if all(m.handle is not None for m in self._crew.members):
                self.ready.set()
                self._news.set()
        elif word == FAILED:
            member.complaint = about
            self._complained(member, about)
        elif word == LEAVING:
            member.farewell = about
            self._lost(member, Outcome())
        return True

    def _complained(self, member: Member, about: str) -> None:
        rank, pid = member.rank, member.pid
        if self._lifecycle.state == State.STARTING:
            self._fail(lambda _: StartFailed(rank, pid, about))
        else:  # it failed to meet us after we had met it
            self._fail(lambda what: WorkerDied(rank, pid, what, farewell=about))

    def _ended(self, member: Member, process: Process) -> None:
        if self._lifecycle.over:
            return
        self._lost(member, process.outcome(_TO_BE_TOLD) or Outcome())

    def _lost(self, member: Member, end: Outcome) -> None:
        rank, pid, why = member.rank, member.pid, member.farewell
        if self._lifecycle.state == State.STARTING and member.handle is None:
            how = f"it {how_it_ended(end.signal, end.status)} before it was READY"
            self._fail(lambda _: StartFailed(rank, pid, how))
        else:
            self._fail(lambda what: WorkerDied(rank, pid, what, end.signal, end.status, why))

    def _fail(self, failure: Failure) -> None:
        if self._lifecycle.over:
            return
        self.failure = failure  # before the state that makes others ask for it
        if not self._lifecycle.advance(State.FAILED):
            return
        _log.error("the pool has failed: %s", failure("the next call"))
        self.decided.set()
        self._news.set()
        self._wake()
        for callback in list(self.callbacks):
            callback()

    def _proceed(self, now: float) -> None:
        """What is due, once the pool is to end."""
        if self._escalation is None:
            if not self._lifecycle.over and not self._stop.is_set():
                return
            loading = not self.ready.is_set()
            self._lifecycle.advance(State.STOPPING)
            self.decided.set()
            self._news.set()
            self._wake()
            grace = 0.0 if loading else self._settings.grace  # nobody listens before it is READY
            self._escalation = Escalation(grace, self._settings.term_grace, _KILLED_WITHIN, now)
        while (step := self._escalation.step(now)) is not None:
            for member in self._crew.members:
                if member.process is not None and not has_ended(member.process):
                    _take(step, member, member.process)

    def _everybody_is_gone(self) -> bool:
        if self._escalation is None:
            return False
        return all(m.process is None or has_ended(m.process) for m in self._crew.members)

    def _finish(self) -> None:
        self._lifecycle.advance(State.STOPPING)
        try:
            for member in self._crew.members:
                if member.process is not None:
                    kill_group(member.process)
            for member in self._crew.members:
                if member.process is not None:
                    member.process.outcome(_TO_REAP)
            self._give_back()
            self._crew.close()
            sweep()
        except Exception:
            _log.exception("the pool could not be taken down in good order")
        finally:
            self._lifecycle.advance(State.STOPPED)
            self.decided.set()
            self._news.set()
            self.over.set()


class _Once:
    """A callback that is called by whoever comes first; its errors are logged."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._left = [callback]

    def __call__(self) -> None:
        with contextlib.suppress(IndexError):
            callback = self._left.pop()
            try:
                callback()
            except Exception:
                _log.exception("a failure callback failed")


def _take(step: Step, member: Member, process: Process) -> None:
    if step is Step.ASK:
        member.link.say(LEAVE)
    elif step is Step.TERMINATE:
        _log.warning("worker %d (pid %d) has not left; SIGTERM", member.rank, process.pid)
        send(process, 15)
    elif step is Step.KILL:
        _log.warning("worker %d (pid %d) is still there; SIGKILL", member.rank, process.pid)
        kill_group(process)
    else:
        _log.error("worker %d (pid %d) does not die", member.rank, process.pid)


def _thread(run: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=run, name="pool monitor", daemon=True)
