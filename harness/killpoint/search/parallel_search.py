"""One search by several processes, each of which runs a part of its schedules.

All begin from the same state, forked before anything was played. A bounded search begins in the
first of them; the schedules that it finds are handed round, so that all have something to do. After
some schedules each reports its progress: the result of a search depends on its seed and the number
of processes, and not on which of them was quick.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import msgspec

from killpoint.errors import CannotWork, KillpointError
from killpoint.interfaces import Diverged, Search
from killpoint.search.rewindable_run import NotRewindable, VerifiedRun
from killpoint.search.schedules.bounded import Bounded, Branches
from killpoint.search.schedules.exploration import Exploration, Found, Searched
from killpoint.search.schedules.states import NotReducible

_ROUNDS = (8, 60, 250)
"""Schedules that each runs before it is heard of: at first, then, and from then on."""

Playing = Callable[[], AbstractContextManager[VerifiedRun]]
Part = tuple[int, int]
"""Index of a part of the search, and the number of parts."""


class Came(msgspec.Struct):
    """Progress of one process with a search."""

    name: str = ""
    schedules: int = 0
    steps: int = 0
    over: bool = False
    waiting: int = 0
    """Number of schedules that it knows of and has not run; others can run them."""
    found: Found | None = None
    doubt: str = ""


class SearchProcesses:
    """The processes; they end with the one that made them.

    Args:
        count: how many.
        playing: what gives each its play, until it ends.
        make: each one's part of the search that is asked for.
    """

    def __init__(self, count: int, playing: Playing, make: Callable[[Any, Part], Search]) -> None:
        self.doubt = ""
        self._workers: list[_Worker] = []
        for index in range(count):
            ours, theirs = Pipe()
            pid = os.fork()
            if pid == 0:
                for line in (ours, *(worker.line for worker in self._workers)):
                    line.close()  # whoever hears of no end would live for ever
                _live(theirs, playing, lambda ask, index=index: make(ask, (index, count)))
            theirs.close()
            self._workers.append(_Worker(pid, ours))

    def explore(self, ask: Any, cap: int) -> tuple[Searched, Found | None]:
        """Play at most ``cap`` schedules of it; stop at the first violation.

        Raises:
            CannotWork, Diverged, Unfaithful: one of them could not go on.
        """
        began = time.monotonic()
        workers = self._workers
        for worker in workers:
            worker.tell("search", ask)
        for worker in workers:
            worker.hear()
        total, rounds = 0, iter(_ROUNDS)
        most = next(rounds)
        while total < cap and not all(worker.came.over for worker in workers):
            self._round(cap - total, most)
            total = sum(worker.came.schedules for worker in workers)
            if any(worker.came.found for worker in workers):
                break
            self._share()
            most = next(rounds, most)
        found = next((worker.came.found for worker in workers if worker.came.found), None)
        self.doubt = self.doubt or next((w.came.doubt for w in workers if w.came.doubt), "")
        over = found is None and all(worker.came.over for worker in workers)
        steps = sum(worker.came.steps for worker in workers)
        seconds = round(time.monotonic() - began, 3)
        name = workers[0].came.name
        return Searched(name, total, over, steps, seconds, found is not None), found

    def close(self) -> None:
        """End them."""
        while self._workers:
            self._workers.pop().end()

    def _round(self, left: int, most: int) -> None:
        """Let each process that has schedules run some; no more than are left in all."""
        busy = [worker for worker in self._workers if not worker.came.over]
        for index, worker in enumerate(busy):
            share = left * (index + 1) // len(busy) - left * index // len(busy)
            worker.tell("go_on", min(most, share))
        for worker in busy:
            worker.hear()

    def _share(self) -> None:
        """Give a process with little to do some of the schedules waiting at the busiest one."""
        for poor in self._workers:
            rich = max(self._workers, key=lambda worker: worker.came.waiting)
            spare = (rich.came.waiting - poor.came.waiting) // 2
            if spare > 0 and poor.came.waiting < _ROUNDS[-1]:
                rich.tell("give", spare)
                poor.tell("take", rich.given())
                poor.hear()


class _Worker:
    """A process, as the one that made it sees it."""

    def __init__(self, pid: int, line: Connection[Any, Any]) -> None:
        self.pid, self.line = pid, line
        self.came = Came()

    def tell(self, order: str, argument: object) -> None:
        self.line.send((order, argument))

    def hear(self) -> None:
        """Receive the process's progress."""
        self.came = self._answer()

    def given(self) -> Branches:
        """Receive the schedules that the process gives away."""
        branches, self.came = self._answer()
        return branches

    def _answer(self) -> Any:
        try:
            answer = self.line.recv()
        except (EOFError, ConnectionError) as error:
            raise CannotWork(f"a process of the search (pid {self.pid}) has ended") from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        self.line.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class _Part:
    """Part of each search that one process runs; it lives in that process."""

    def __init__(self, play: VerifiedRun, make: Callable[[Any], Search]) -> None:
        self._play, self._make = play, make

    def search(self, ask: Any) -> Came:
        self._search = self._make(ask)
        self._done = Exploration(self._search, self._play)
        return self._came()

    def go_on(self, most: int) -> Came:
        self._done.go_on(most)
        return self._came()

    def give(self, count: int) -> tuple[Branches, Came]:
        assert isinstance(self._search, Bounded)
        return self._search.give(count), self._came()

    def take(self, branches: Branches) -> Came:
        assert isinstance(self._search, Bounded)
        self._search.take(branches)
        return self._came()

    def _came(self) -> Came:
        done, search = self._done, self._search
        waiting = search.waiting if isinstance(search, Bounded) else 0
        counts = done.schedules, done.steps, done.over, waiting
        return Came(search.name, *counts, done.found, self._play.doubt)


def _live(line: Connection[Any, Any], playing: Playing, make: Callable[[Any], Search]) -> NoReturn:
    """Do as ordered until the process that gives the orders has gone."""
    status = 1
    try:
        with playing() as play:
            part = _Part(play, make)
            while True:
                order, argument = line.recv()
                line.send(getattr(part, order)(argument))
    except (EOFError, ConnectionError):
        status = 0
    except (KillpointError, Diverged, NotRewindable, NotReducible) as error:
        line.send(error)
    except Exception as error:
        line.send(CannotWork(f"{type(error).__name__}: {error}"))
    finally:
        os._exit(status)
