"""Generation A: yield the processor in a loop, optionally with sleeps once it got quiet."""

import os
from collections.abc import Callable

from ..clock import Clock, monotonic
from .strategy import Post, last_look, raise_fault

_QUIET_AFTER = 3.0
_NEWS_EVERY = 0.005


class Yielding:
    """Burns a core while it waits; `nap` seconds of sleep per look after 3 s without success."""

    def __init__(self, nap: float = 0.0, clock: Clock = monotonic) -> None:
        self._nap = nap
        self._clock = clock
        self._last_success = clock()

    def wait(self, look: Callable[[], bool], post: Post, timeout: float | None) -> bool:
        """See `Waiting.wait`."""
        if timeout is not None and timeout <= 0:
            return last_look(look, post)
        clock = self._clock
        now = clock()
        end = None if timeout is None else now + timeout
        news = now
        while not look():
            raise_fault(post)
            now = clock()
            if end is not None and now >= end:
                return last_look(look, post)
            if self._nap and now - self._last_success >= _QUIET_AFTER:
                post.arm()
                post.block(self._nap if end is None else min(self._nap, end - now))
            elif now >= news:
                post.block(0)
                news = now + _NEWS_EVERY
            else:
                os.sched_yield()
        self._last_success = now
        return True
