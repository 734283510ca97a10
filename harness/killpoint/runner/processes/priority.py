"""Priority over the observed processes, where the machine permits it.

Workers that spin can keep an observing process from running for many seconds: seen on Linux 6.18
with sched_autogroup, 15 s for 0.15 s of work. A real-time thread is not kept waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Generator
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_LOWEST = 1


@contextlib.contextmanager
def ahead(*, children: bool) -> Generator[bool]:
    """Schedule this thread before all ordinary ones; yield whether that is permitted.

    Args:
        children: Whether threads and processes that it begins are scheduled so, too.
    """
    before, how = os.sched_getscheduler(0), os.sched_getparam(0)
    policy = os.SCHED_RR | (0 if children else os.SCHED_RESET_ON_FORK)
    try:
        os.sched_setscheduler(0, policy, os.sched_param(_LOWEST))
    except OSError:  # it takes CAP_SYS_NICE, or a limit of RLIMIT_RTPRIO
        yield False
        return
    try:
        yield True
    finally:
        try:
            os.sched_setscheduler(0, before, how)
        except OSError:  # with RLIMIT_RTPRIO alone the flag cannot be taken back; it does no harm
            os.sched_setscheduler(0, before | os.SCHED_RESET_ON_FORK, how)


async def to_thread_ahead(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Call a function in another thread, which meanwhile is scheduled before all ordinary ones."""

    def call() -> T:
        with ahead(children=True):
            return function(*args, **named)

    return await asyncio.to_thread(call)
