"""A collector that runs in a thread of one's choice, at a moment of one's choice."""

import contextlib
import gc
import threading
import time
from collections.abc import Iterator


class CollectingClock:
    """A clock by which the threads of that name run the collector, once, when it is due."""

    def __init__(self, thread: str) -> None:
        self._thread, self.due = thread, False

    def __call__(self) -> float:
        if self.due and threading.current_thread().name == self._thread:
            self.due = False
            gc.collect()
        return time.monotonic()


@contextlib.contextmanager
def collected_in(thread: str) -> Iterator[CollectingClock]:
    """Nothing else is collected meanwhile."""
    gc.collect()
    gc.disable()
    try:
        yield CollectingClock(thread)
    finally:
        gc.enable()


def in_a_cycle(thing: object) -> None:
    """Leave a thing, to which nothing else refers, to the collector."""
    cycle: list[object] = [thing]
    cycle.append(cycle)
