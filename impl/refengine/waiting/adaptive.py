"""Ours: spin a few microseconds, yield for sixty or more, then block on the bell at no CPU."""

import os
from collections.abc import Callable

from ..clock import Clock, monotonic
from .strategy import Post, last_look, raise_fault

_LOOKS_MOST, _LOOKS_LEAST, _GROW = 150, 8, 16
_YIELDING, _YIELDING_MOST = 60e-6, 1e-3
_TOO_SOON = 0.5e-3


class Adaptive:
    """Bare looks double as an estimate of the peer's speed: halved on failure, grown on success.

    With as many parties as cores a bare look only keeps the peer from running, so there are
    none then.

    Waking a sleeper takes longer than yielding for sixty microseconds: two parties that answer
    each other and once both slept would go on sleeping. So whoever is woken soon after it fell
    asleep yields longer the next times, until it sleeps long once more.
    """

    def __init__(self, n_reader: int, clock: Clock = monotonic, cores: int | None = None) -> None:
        cores = cores or len(os.sched_getaffinity(0))
        self._least = _LOOKS_LEAST if n_reader < cores else 0
        self._most = _LOOKS_MOST if n_reader < cores else 0
        self._looks = self._most
        self._yielding = _YIELDING
        self._clock = clock

    def wait(self, look: Callable[[], bool], post: Post, timeout: float | None) -> bool:
        """See `Waiting.wait`."""
        if timeout is not None and timeout <= 0:
            return last_look(look, post)
        for _ in range(self._looks):
            if look():
                self._looks = min(self._most, self._looks + _GROW)
                return True
        self._looks = max(self._least, self._looks >> 1)
        clock = self._clock
        now = clock()
        end = None if timeout is None else now + timeout
        calm = now + self._yielding
        asleep: float | None = None
        news = True
        while not look():
            if news:
                raise_fault(post)
                news = False
            now = clock()
            if end is not None and now >= end:
                return last_look(look, post)
            if now < calm:
                os.sched_yield()
                continue
            post.arm()
            if look():
                return True
            asleep = now
            post.block(None if end is None else end - now)
            news = True  # only now can there be a fault that was not there before
            calm = clock() + _YIELDING
        if asleep is not None:
            soon = clock() - asleep < _TOO_SOON
            self._yielding = min(2 * self._yielding, _YIELDING_MOST) if soon else _YIELDING
        return True
