"""Tasks on threads of their own, of which one runs at a time: greenlets' work, for traced code.

The interpreter counts per thread whether a trace function runs, so a switch of greenlets inside one
loses points in silence. Threadlets have the part of a greenlet's interface that a world uses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from killpoint.errors import CannotWork

PATIENCE = 20.0
"""Seconds that a task may run without coming to a point."""

_here = threading.local()


class ThreadTask:
    """A task that runs when switched to, until it switches to another one or ends."""

    def __init__(self, run: Callable[[], object], parent: ThreadTask | None = None) -> None:
        self.run, self._parent = run, parent
        self._turn = threading.Lock()
        """Lock that is held except at the moment in which its turn comes."""
        self._turn.acquire()
        self._begun = parent is None
        self._thrown: type[BaseException] | None = None
        self.dead = False

    def switch(self) -> None:
        """Let it run; return when a task switches back."""
        me = getcurrent()
        self._go()
        me._wait()

    def throw(self, kind: type[BaseException]) -> None:
        """Raise an exception in it, where it stands; in the caller if it has not begun."""
        if not self._begun:
            self.dead = True
            raise kind
        self._thrown = kind
        self.switch()

    def _go(self) -> None:
        if self._begun:
            self._turn.release()
            return
        self._begun = True
        (_idle.pop() if _idle else _Thread()).give(self)

    def end(self) -> None:
        """End it: its thread is free for another one, and the parent goes on."""
        if self._parent is not None:
            self._parent._go()

    def _wait(self) -> None:
        if not self._turn.acquire(timeout=PATIENCE):
            _here.let = None  # a blocked task may end one day, and would wake it at a wrong time
            raise CannotWork(f"a task has not come to a point for {PATIENCE:g} s: does it block?")
        thrown, self._thrown = self._thrown, None
        if thrown is not None:
            raise thrown


class _Thread:
    """Thread that runs one task after another: to start a thread costs as much as thirty steps."""

    def __init__(self) -> None:
        self._let: ThreadTask | None = None
        self._given = threading.Lock()
        self._given.acquire()
        threading.Thread(target=self._work, daemon=True).start()

    def give(self, let: ThreadTask) -> None:
        """Run this task."""
        self._let = let
        self._given.release()

    def _work(self) -> None:
        while True:
            self._given.acquire()
            let, self._let = self._let, None
            assert let is not None
            _here.let = let
            try:
                let.run()
            finally:
                _here.let = None
                let.dead = True
                _idle.append(self)
                let.end()


_idle: list[_Thread] = []


def getcurrent() -> ThreadTask:
    """Return the running task; a thread that is none becomes one."""
    let: ThreadTask | None = getattr(_here, "let", None)
    if let is None:
        let = _here.let = ThreadTask(lambda: None)
    return let
