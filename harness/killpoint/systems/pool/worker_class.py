"""The worker class that every target's pool gets: its methods do as calls ask, and log its phases.

It finds its play by the environment; without one it just works.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from killpoint.runner.native import NativeWait
from killpoint.runner.points.worker_points import WorkerLines
from killpoint.runner.processes.target_agent import DEVICE, PLAY, TargetAgent
from killpoint.systems.pool import payload as payload
from killpoint.systems.pool.payload import (
    Heavy,
    Reply,
    Request,
    Scheduled,
    StepOutput,
    Unpicklable,
    Unreadable,
)
from killpoint.systems.pool.steps import SLOW

LEFT = 7
"""Status of a worker that a method ends."""
_SPINS = 60.0


class WorkerError(Exception):
    """Raised in a method on purpose."""


class PoolWorker:
    """One worker of a pool under test."""

    def __init__(self, rank: int, workers: int) -> None:
        """Log the worker's arrival, and come to the first phase."""
        self.rank = rank
        self.workers = workers
        self.name = f"worker-{rank}"
        self.pid = os.getpid()
        folder = os.environ.get(PLAY)
        self._agent = TargetAgent(self.name, Path(folder)) if folder else None
        self._lines: WorkerLines | None = None
        if self._agent is not None:
            from killpoint.runner.observe.shm_names import journal_names_once
            from killpoint.runner.points import line_recorder

            journal_names_once(self._agent.log)
            line_recorder.begin(self._agent.folder)
            self._agent.log.write("worker-here", rank=rank, pid=self.pid, parent=os.getppid())
            self._lines = WorkerLines(self._agent)
        payload.take_stand(self)
        payload.at("constructing", -1)

    def init_device(self) -> None:
        """Take this worker's GPU, where the play is on GPUs; there may be fewer than workers."""
        if os.environ.get(DEVICE, "cpu") == "cuda":
            torch: Any = importlib.import_module("torch")
            torch.cuda.set_device(self.rank % torch.cuda.device_count())
            torch.zeros(1, device="cuda")  # its context is made now, not in the first call

    def load_model(self) -> None:
        """Load nothing; come to the phase ``loading``."""
        payload.at("loading", -1)
        if self._lines is not None:
            self._lines.begin("start")

    def shutdown(self) -> None:
        """Leave cleanly."""
        if self._lines is not None:
            self._lines.end()
        payload.at("leaving", -1)
        self._say("leaving")

    # -- what calls ask ---------------------------------------------------------------------

    def echo(self, call: Request, size: int = 64) -> Reply:
        """Reply at once."""
        return self._serve("echo", call, lambda: None, size)

    def compute(self, call: Request, size: int = 64) -> Reply:
        """Reply after two phases ``computing``: a worker held in one can be struck in the next."""

        def work() -> None:
            for _ in range(2):
                payload.at("computing", call.call)

        return self._serve("compute", call, work, size)

    def native(self, call: Request, size: int = 64) -> Reply:
        """Reply after the phase ``native``; a worker stopped there holds the GIL meanwhile."""
        return self._serve("native", call, lambda: payload.at("native", call.call), size)

    def collective(self, call: Request, size: int = 64) -> Reply:
        """Answer after a reduction over all workers, with the phase ``collective`` inside it."""
        from killpoint.systems.pool.collective import all_reduced

        folder = self._agent.folder if self._agent else None

        def reduce() -> None:
            all_reduced(
                self.rank, self.workers, folder, lambda: payload.at("collective", call.call)
            )

        return self._serve("collective", call, reduce, size)

    def flood(self, call: Request, size: int) -> Reply:
        """Reply with more than a queue takes inline."""
        return self._serve("flood", call, lambda: None, size, large=True)

    def spin(self, call: Request, size: int = 64) -> Reply:
        """Reply after a minute, busy in Python until then."""

        def busy() -> None:
            payload.at("spinning", call.call)
            end = time.monotonic() + _SPINS
            while time.monotonic() < end:
                pass

        return self._serve("spin", call, busy, size)

    def raise_error(self, call: Request, size: int = 64) -> Reply:
        """Raise an error."""

        def fail() -> None:
            raise WorkerError(f"rank {self.rank} fails in call {call.call}, on purpose")

        return self._serve("raise_error", call, fail, size)

    def leave(self, call: Request, size: int = 64) -> Reply:
        """End the interpreter, as far as the target lets that happen."""
        return self._serve("leave", call, lambda: sys.exit(LEFT), size)

    def unpicklable(self, call: Request, size: int = 64) -> Reply:
        """Reply with an object that cannot be pickled."""
        with self._serving("unpicklable", call):
            return Unpicklable(self.rank, call.call, payload.body(call.call, size))

    def heavy(self, call: Request, size: int = 64) -> Reply:
        """Reply with an object that is still being pickled when the next call comes."""
        with self._serving("heavy", call):
            return Heavy(self.rank, call.call, payload.body(call.call, size))

    def slow(self, call: Request, size: int = 64) -> Reply:
        """Reply after a moment, in which the processor is not needed."""

        def wait() -> None:
            threading.Event().wait(SLOW)

        return self._serve("slow", call, wait, size)

    def unreadable(self, call: Request, size: int = 64) -> Reply:
        """Reply with an object that cannot be unpickled."""
        with self._serving("unreadable", call):
            return Unreadable(self.rank, call.call, payload.body(call.call, size))

    def function(self, call: Request, size: int = 64) -> Reply:
        """Reply at once, to a function that was sent by value."""
        return self._serve("function", call, lambda: None, size)

    def execute_model(self, scheduled: Scheduled) -> StepOutput | None:
        """Return what this rank has finished; None at the rank that is to have no result."""
        if self.rank == scheduled.silent:
            return None
        return StepOutput(scheduled.sent[self.rank], scheduled.received[self.rank])

    # -- where it is ------------------------------------------------------------------------

    def _serve(
        self,
        method: str,
        call: Request,
        work: Callable[[], None],
        size: int,
        *,
        large: bool = False,
    ) -> Reply:
        with self._serving(method, call):
            work()
            return Reply(self.rank, call.call, payload.body(call.call, size), large=large)

    @contextmanager
    def _serving(self, method: str, call: Request) -> Generator[None]:
        if self._lines is not None:
            self._lines.end()
        self._say("serving", call=call.call, method=method)
        try:
            yield
            self._say("served", call=call.call, method=method)
        finally:
            if self._lines is not None:
                self._lines.begin("serve")

    def at(self, phase: str, call: int) -> None:
        """Stand at a phase, if the runner waits for this worker there."""
        agent = self._agent
        if agent is None:
            return
        main = threading.current_thread() is threading.main_thread()
        agent.log.write("phase", name=phase, call=call, **({} if main else {"thread": True}))
        arm = agent.due("work", phase)
        if arm is None:
            return
        if phase == "native":
            busy = NativeWait(agent.folder / f"{self.name}.native")
            agent.meet(arm, phase, busy.wait)
        else:
            agent.meet(arm, phase)

    def _say(self, kind: str, **data: object) -> None:
        if self._agent is not None:
            self._agent.log.write(kind, **data)
