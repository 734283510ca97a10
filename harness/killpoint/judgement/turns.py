"""Turns of the plays of one judgement that are to have no other play beside them.

Before a play is alone, all others have to end, and one of them may last for many seconds. So who
has such a play waits until half of the threads do, or until none has anything else to play; then
they play one after another, and the others have paused once for all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

_LOOKS = 0.02
"""Seconds after which who waits asks again whether it is to go on."""


class Turns:
    """The threads of one judgement, and which of them wait to play alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._threads = 1
        self._unbegun = self._running = self._waiting = 0
        self._having = 0
        """Number of those who wait, or play, since their turn has come."""

    def expect(self, cases: int, threads: int) -> None:
        """Begin with so many cases, in so many threads."""
        with self._changed:
            self._unbegun, self._threads = cases, threads

    @contextmanager
    def case(self) -> Generator[None]:
        """Play a case within."""
        with self._changed:
            self._unbegun -= 1
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self, go_on: Callable[[], object]) -> Generator[None]:
        """Wait for the turn to play alone, and have it within.

        ``go_on``: called again and again; it raises once there is nothing to wait for any more.
        """
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            has_turn = False
            try:
                while not (self._having or self._is_due()):
                    self._changed.wait(_LOOKS)
                    go_on()
                has_turn = True
                self._having += 1
            finally:
                if not has_turn:
                    self._waiting -= 1
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1
                self._having -= 1

    def _is_due(self) -> bool:
        if self._unbegun == 0 and self._waiting >= self._running:
            return True
        return self._waiting >= max(1, self._threads // 2)
