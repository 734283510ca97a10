"""Forked children and their deadlines: several at a time, each heard to its end or ended."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from mechanical import session

Job = TypeVar("Job")


@dataclass
class Ended:
    """How one child ended, and what it told on the way."""

    told: list[dict[str, Any]] = field(default_factory=list)
    overdue: str = ""
    """The test that did not end in time, if that is why the child was ended."""
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether pytest came to its own end."""
        return any(line["did"] == "all" for line in self.told)


class JobProcesses(Generic[Job]):
    """Runs a child for each job, so many at a time, in one thread."""

    def __init__(
        self,
        work: Callable[[Job, int], None],
        allowed: Callable[[Job, str | None], float],
        count: int,
    ) -> None:
        """Say what is to be done.

        Args:
            work: called in the child with the job and the descriptor to tell at.
            allowed: seconds for a test of a job, or (None) for what comes before, between and
                after tests.
            count: children at a time.
        """
        self._work = work
        self._allowed = allowed
        self._count = count
        self._sources = selectors.DefaultSelector()

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Ended]]:
        """Each job with how its child ended, in the order of their ends."""
        waiting = iter(jobs)
        children: list[_Child[Job]] = []
        try:
            while True:
                while len(children) < self._count and (job := next(waiting, None)) is not None:
                    children.append(self._start(job))
                if not children:
                    return
                self._listen(children)
                for child in [child for child in children if child.over]:
                    children.remove(child)
                    yield child.job, child.ended
        finally:
            for child in children:
                child.end()
                self._sources.unregister(child.fd)

    def _start(self, job: Job) -> _Child[Job]:
        child = _Child(job, self._work, self._allowed)
        self._sources.register(child.fd, selectors.EVENT_READ, child)
        return child

    def _listen(self, children: list[_Child[Job]]) -> None:
        first = min(child.deadline for child in children)
        for key, _ in self._sources.select(max(0.0, first - time.monotonic())):
            key.data.hear()
        for child in children:
            if not child.over and time.monotonic() > child.deadline:
                child.ended.overdue = child.test or "the session itself"
                child.over = True
            if child.over:
                self._sources.unregister(child.fd)
                child.end()


class _Child(Generic[Job]):
    def __init__(
        self,
        job: Job,
        work: Callable[[Job, int], None],
        allowed: Callable[[Job, str | None], float],
    ) -> None:
        self.job, self.ended, self.over = job, Ended(), False
        self.test: str | None = None
        self._allowed = allowed
        self._rest = b""
        self._began = time.monotonic()
        self._folder = Path(tempfile.mkdtemp(prefix="mechanical-"))
        self.fd, out = os.pipe()
        self.deadline = self._began + allowed(job, None)
        self.pid = os.fork()
        if self.pid == 0:
            self._live(work, out)
        os.close(out)

    def _live(self, work: Callable[[Job, int], None], out: int) -> None:
        try:
            session.seclude(self._folder)
            work(self.job, out)
        except BaseException:
            with contextlib.suppress(OSError):
                error = json.dumps({"did": "broke", "why": traceback.format_exc()})
                os.write(out, error.encode() + b"\n")
        finally:
            os._exit(0)

    def hear(self) -> None:
        data = os.read(self.fd, 1 << 20)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in map(json.loads, lines):
            self.ended.told.append(line)
            self.test = line["test"] if line["did"] == "start" else None
            self.deadline = time.monotonic() + self._allowed(self.job, self.test)
        # A role that outlives its parent may hold the pipe open: the last word is the end.
        last = self.ended.told[-1]["did"] if self.ended.told else ""
        self.over = not data or last in ("all", "broke")

    def end(self) -> None:
        """End it and whatever it started in its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        shutil.rmtree(self._folder, ignore_errors=True)
        self.ended.seconds = time.monotonic() - self._began
