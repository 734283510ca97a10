"""Store points: the moments right before and right after each store to words that parties share.

Each store has two points, numbered in the order in which an operation reaches them. A party that
ends between two stores leaves the same memory behind wherever between them it ended, so these
points cover every memory state that a death can leave. Store points do not see content; page points
do.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager

from killpoint.targets.protocol import StoreSink

OnPlace = Callable[[str], None]


class Stores:
    """Receives each store from the target's adapter; calls the watching thread's callback."""

    def __init__(self) -> None:
        """Start without a watcher."""
        self._on_place: OnPlace | None = None
        self._thread = 0

    @contextlib.contextmanager
    def watched(self, on_place: OnPlace) -> Generator[None]:
        """Call ``on_place("before …")`` and ``on_place("after …")`` for each store until the end.

        An exception from ``on_place`` is raised in the target's code at that store.
        """
        self._thread, self._on_place = threading.get_ident(), on_place
        try:
            yield
        finally:
            self._on_place = None

    @contextlib.contextmanager
    def around(self, what: str) -> Generator[None]:
        """Report the places before and after the store, which is made inside the block."""
        self._tell(f"before {what}")
        yield
        self._tell(f"after {what}")

    def flags(self, recorded: StoreSink | None = None) -> StoreSink:
        """Return a sink for stores to flags; ``recorded`` is entered for the store alone."""

        @contextlib.contextmanager
        def sink(slot: int, flag: int, value: int) -> Generator[None]:
            inner: AbstractContextManager[None] = contextlib.nullcontext()
            if recorded is not None:
                inner = recorded(slot, flag, value)
            name = "written" if flag == 0 else f"read by {flag - 1}"
            with self.around(f"slot {slot} {name} = {value}"), inner:
                yield

        return sink

    def _tell(self, place: str) -> None:
        if self._on_place is not None and threading.get_ident() == self._thread:
            self._on_place(place)
