"""A worker pool over pipes: one process and one pipe a worker, calls told apart by their numbers.

It is here to be judged (docs/targets.md), and knows nothing of who judges it. A worker ends with
the process that started it, by the kernel's doing. What it does not hold: a worker that stops
reading its pipe can block a large request; a stopped worker is only found by a deadline.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType

    from killpoint.targets.protocol import Capability, Outcome, PoolShape

_DEATHSIG = 1
_START, _HEALTH, _TICK = 60.0, 10.0, 0.05


class WorkerDied(Exception):
    """A worker is gone, and the pool with it."""


class MethodFailed(Exception):
    """A worker's own error, as text; the pool lives on."""


class Stopped(Exception):
    """The pool was shut down."""


def serve(pipe: Connection, others: list[Connection], rank: int, size: int, worker: str) -> None:
    """A worker's life."""
    ctypes.CDLL(None).prctl(_DEATHSIG, signal.SIGKILL, 0, 0, 0)
    for other in others:
        other.close()  # a fork has copied the parent's ends; then nobody would read an end of file
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    module, _, name = worker.partition(":")
    try:
        mine = getattr(importlib.import_module(module), name)(rank, size)
        mine.init_device()
        mine.load_model()
    except Exception:
        pipe.send((-1, False, traceback.format_exc()))
        return
    pipe.send((-1, True, os.getpid()))
    try:
        while True:
            number, method, args = pipe.recv()
            try:
                answer = (number, True, getattr(mine, method)(*args))
                pipe.send(answer)
            except (Exception, SystemExit) as error:
                if isinstance(error, SystemExit) and error.code == _TOLD:
                    raise
                pipe.send((number, False, traceback.format_exc()))
    except EOFError:
        mine.shutdown()


_TOLD = "told to leave"


def _leave(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(_TOLD)


class Pool:
    """The parent's side."""

    def __init__(self, shape: PoolShape, worker: str, timeout: float | None) -> None:
        context: Any = multiprocessing.get_context(
            None if shape.start == "default" else shape.start
        )
        self.grace = shape.grace
        self.pipes: list[Connection] = []
        self.processes: list[Any] = []
        self.answers: dict[int, dict[int, Any]] = {}
        self.error: Exception | None = None
        self.callback: Callable[[], None] = lambda: None
        self.calls = 0
        self.watcher: threading.Thread | None = None
        for rank in range(shape.workers):
            ours, theirs = context.Pipe()
            forked = context.get_start_method() == "fork"
            others = [*self.pipes, ours] if forked else []
            args = (theirs, others, rank, shape.workers, worker)
            process = context.Process(target=serve, args=args, daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        try:
            self.answers[-1] = {}
            self.gather(-1, None, _START if timeout is None else timeout)
        except BaseException:
            self.stop()
            raise
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()

    def ask(self, method: str, args: tuple[Any, ...]) -> int:
        if self.error is not None:
            raise self.error
        number, self.calls = self.calls, self.calls + 1
        self.answers[number] = {}
        for pipe in self.pipes:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                pipe.send((number, method, args))
        return number

    def done(self, number: int) -> bool:
        with contextlib.suppress(WorkerDied):
            self._hear(0)
        found = self.answers.get(number)
        return found is None or len(found) == len(self.pipes) or self.error is not None

    def gather(self, number: int, rank: int | None, timeout: float | None) -> Any:
        end = None if timeout is None else time.monotonic() + timeout
        found = self.answers[number]
        while len(found) < len(self.pipes):
            if self.error is not None:
                raise self.error
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                self.answers.pop(number, None)  # what comes late finds nobody
                raise TimeoutError(f"call {number} was not answered in {timeout} s")
            self._hear(_TICK if left is None else min(left, _TICK))
        self.answers.pop(number, None)
        for fine, value in found.values():
            if not fine:
                raise MethodFailed(value)
        return [found[at][1] for at in sorted(found)] if rank is None else found[rank][1]

    def _hear(self, seconds: float) -> None:
        """Take in what workers have said."""
        for ready in wait([*self.pipes], seconds):
            rank = self.pipes.index(ready)
            try:
                number, fine, value = ready.recv()
            except (EOFError, ConnectionResetError) as error:
                gone = WorkerDied(f"worker {rank} (pid {self.processes[rank].pid}) died")
                self.error = self.error or gone
                raise self.error from error
            if number in self.answers:
                self.answers[number][rank] = (fine, value)

    def _watch(self) -> None:
        wait([process.sentinel for process in self.processes])
        if not isinstance(self.error, Stopped):
            self.error = self.error or WorkerDied("a worker died")
            self.callback()

    def health(self) -> None:
        self._hear(0)
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        if isinstance(self.error, WorkerDied) and self.watcher is not None:
            self.watcher.join()  # whoever asked to be told of the death is told first
        self.error = Stopped("the pool was shut down")
        for pipe in self.pipes:
            pipe.close()
        for harder in (lambda _: None, lambda each: each.terminate(), lambda each: each.kill()):
            for process in self.processes:
                harder(process)
            end = time.monotonic() + self.grace
            for process in self.processes:
                process.join(max(0.0, end - time.monotonic()))
        for process in self.processes:
            process.join()


class PoolTarget:
    """What killpoint is given: the calls of a pool, and three facts about it."""

    name = "pipe_pool"
    version = "1"
    capabilities: frozenset[Capability] = frozenset(("pool", "points"))
    preloads = ()

    def load(self) -> None:
        """Importing this module has done it."""

    def pool_start(self, shape: PoolShape, worker: str, timeout: float | None) -> Pool:
        return Pool(shape, worker, timeout)

    def pool_call(
        self,
        end: Pool,
        method: str,
        args: tuple[Any, ...],
        timeout: float | None,
        rank: int | None,
    ) -> Any:
        return end.gather(end.ask(method, args), rank, timeout)

    def pool_submit(
        self, end: Pool, method: str, args: tuple[Any, ...], rank: int | None
    ) -> tuple[int, int | None]:
        return end.ask(method, args), rank

    def pool_result(self, end: Pool, future: tuple[int, int | None], timeout: float | None) -> Any:
        return end.gather(*future, timeout)

    def pool_done(self, end: Pool, future: tuple[int, int | None]) -> bool:
        return end.done(future[0])

    def pool_health(self, end: Pool, timeout: float | None) -> None:
        end.health()

    def pool_on_failure(self, end: Pool, callback: Callable[[], None]) -> None:
        end.callback = callback

    def pool_state(self, end: Pool) -> str:
        if end.error is None:
            return "ready"
        return "stopped" if isinstance(end.error, Stopped) else "failed"

    def pool_pids(self, end: Pool) -> list[int]:
        return [process.pid for process in end.processes]

    def pool_stop(self, end: Pool) -> None:
        end.stop()

    def classify(self, error: BaseException) -> Outcome:
        if isinstance(error, TimeoutError):
            return "timeout"
        if isinstance(error, MethodFailed):
            return "failed"
        if isinstance(error, WorkerDied):
            return "peer-died"
        return "closed" if isinstance(error, Stopped) else "error"

    def is_own_code(self, code: CodeType) -> bool:
        return code.co_filename == __file__


class WordlessPoolTarget(PoolTarget):
    """The same without words for a pool's states."""

    def pool_state(self, end: Pool) -> str:
        return ""
