"""A control: the delay of a plain wait beyond its time, measured in a process of its own."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable

from killpoint.history.log import Log

_TICK = 0.02
"""Seconds of a wait."""
_LATE = 0.005
"""Seconds of delay from which on a wait is logged."""


def watch(log: Log, over: Callable[[], bool]) -> None:
    """Wait repeatedly until ``over``, in a thread; log each late end as ``late-tick``.

    A processor that stands still delays only the processes on it: so every process with time-bound
    messages has such a thread.
    """
    threading.Thread(target=_watch, args=(log, over), daemon=True).start()


def _watch(log: Log, over: Callable[[], bool]) -> None:
    while not over():
        before = time.monotonic()
        select.select([], [], [], _TICK)
        late = time.monotonic() - before - _TICK
        if late > _LATE:
            log.write("late-tick", ns=int(late * 1e9))
