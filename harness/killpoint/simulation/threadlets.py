"""Tasks on threads of their own, of which one runs at a time: what greenlets do, for traced code.

The interpreter counts per thread whether a trace function runs, so a switch of greenlets inside
one loses points in silence. These have the part of a greenlet's interface that a world uses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from killpoint.errors import CannotWork

PATIENCE = 20.0
"""Seconds that a task may run without coming to a point."""

_here = threading.local()


class Threadlet:
    """A task. It runs when switched to, until it switches to another one or ends."""

    def __init__(self, run: Callable[[], object], parent: Threadlet | None = None) -> None:
        self._run, self._parent = run, parent
        self._turn = threading.Semaphore(0)
        self._begun = parent is None
        self._thrown: type[BaseException] | None = None
        self.dead = False

    def switch(self) -> None:
        """Let it run; returns when somebody switches back."""
        me = getcurrent()
        self._go()
        me._wait()

    def throw(self, kind: type[BaseException]) -> None:
        """Raise this in it, where it stands; in the caller if it has not begun."""
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
        threading.Thread(target=self._live, daemon=True).start()

    def _live(self) -> None:
        _here.let = self
        try:
            self._run()
        finally:
            self.dead = True
            if self._parent is not None:
                self._parent._go()

    def _wait(self) -> None:
        if not self._turn.acquire(timeout=PATIENCE):
            _here.let = None  # whoever blocks may end one day, and would wake it at a wrong time
            raise CannotWork(f"a task has not come to a point for {PATIENCE:g} s: does it block?")
        thrown, self._thrown = self._thrown, None
        if thrown is not None:
            raise thrown


def getcurrent() -> Threadlet:
    """The one that runs; a thread that is none becomes one."""
    let: Threadlet | None = getattr(_here, "let", None)
    if let is None:
        let = _here.let = Threadlet(lambda: None)
    return let
