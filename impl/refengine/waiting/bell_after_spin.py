"""Generation B: spin for a second after the last success, then block and look every 5 s."""

import os
from collections.abc import Callable

from ..clock import Clock, monotonic
from .strategy import Post, last_look, raise_fault

_SPIN = 1.0
_LOOK_AGAIN = 5.0
_NEWS_EVERY = 0.005


class BellAfterSpin:
    """Quick after recent traffic, quiet later; the periodic look is a net below the bell."""

    def __init__(self, clock: Clock = monotonic) -> None:
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
            if now - self._last_success >= _SPIN:
                post.arm()
                if look():
                    break
                post.block(_LOOK_AGAIN if end is None else min(_LOOK_AGAIN, end - now))
            elif now >= news:
                post.block(0)
                news = now + _NEWS_EVERY
            else:
                os.sched_yield()
        self._last_success = clock()
        return True
