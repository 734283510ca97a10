"""A control: what the machine makes a plain wait wait beyond its time, in a process of its own."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable

from killpoint.history.log import Log

_TICK = 0.02
"""Seconds of a wait."""
_LATE = 0.005
"""Beyond it, worth a word."""


def watch(log: Log, over: Callable[[], bool]) -> None:
    """Wait again and again until it is over, in a thread; log as ``late-tick`` what came late.

    A processor that stands still keeps up only who is on it: so every process whose words have a
    time to be judged by has such a thread.
    """
    threading.Thread(target=_watch, args=(log, over), daemon=True).start()


def _watch(log: Log, over: Callable[[], bool]) -> None:
    while not over():
        before = time.monotonic()
        select.select([], [], [], _TICK)
        late = time.monotonic() - before - _TICK
        if late > _LATE:
            log.write("late-tick", ns=int(late * 1e9))
