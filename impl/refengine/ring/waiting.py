"""Waiting for a slot: the place where a party sleeps, and three strategies (SPEC 2).

A `Waiter` wakes a sleeper; a `SlotWaiter` is the place where one party of a ring waits: its sleep
flag, its waiter. A `WaitStrategy` decides when to look, to yield and to sleep there: `Adaptive` is
the queue's own; `Yielding` and `SpinThenSleep` are the two generations before it.
"""

import os
import time
from collections.abc import Callable
from typing import Protocol

from ..base.clock import Clock, monotonic
from ..base.event_waiter import Fault
from .memory import Fence, SharedWords


class WaitPoint(Protocol):
    """The place where a party waits: its sleep flag, its wake-up, its peers."""

    waiting_for: str

    def announce_sleep(self) -> None:
        """Store the sleep flag, then fence; the caller looks once more before it blocks."""
        ...

    def block(self, seconds: float | None) -> None:
        """Sleep until a wake-up, a peer's end, a cancel, or that long; zero only looks."""
        ...

    def fault(self) -> Fault | None:
        """Why waiting is pointless, as last seen by `block`."""
        ...


class WaitStrategy(Protocol):
    """Waits until `look()` is true.

    Returns False once `timeout` seconds have passed (never earlier; zero or less: one look).
    Raises the wait point's fault, but only after a look that came later than the fault.
    """

    def wait(self, look: Callable[[], bool], point: WaitPoint, timeout: float | None) -> bool:
        """See the class."""
        ...


def last_look(look: Callable[[], bool], point: WaitPoint) -> bool:
    """Do the look at a deadline: news of peers first, then the slot, then the fault."""
    point.block(0)
    if look():
        return True
    raise_fault(point)
    return False


def raise_fault(point: WaitPoint) -> None:
    """Raise the wait point's fault, if any."""
    fault = point.fault()
    if fault is not None:
        raise fault(point.waiting_for)


class Waiter(Protocol):
    """Waker of a sleeper: by wake-ups, peers' ends, cancels."""

    def block(self, seconds: float | None) -> None:
        """Sleep until news, at most that long; zero only looks."""
        ...

    def fault(self) -> Fault | None:
        """Why waiting is pointless, as of the last `block`."""
        ...


class SlotWaiter:
    """`WaitPoint` over a ring's sleep flag and a waiter."""

    def __init__(
        self, cells: SharedWords, sleeper_at: int, fence: Fence, waiter: Waiter, waiting_for: str
    ) -> None:
        self._cells, self._sleeper_at = cells, sleeper_at
        self._fence_in, self._fence_out = fence.acquire, fence.release
        self.block = waiter.block
        self.fault = waiter.fault
        self.waiting_for = waiting_for

    def announce_sleep(self) -> None:
        """Do Dekker's first half: the sleep flag is out before the next look (SPEC Q8)."""
        self._cells[self._sleeper_at] = 1
        self._fence_in(False)
        self._fence_out()


class PollingWaiter:
    """The waiter of a ring used alone: it naps; peers store their clean close in memory."""

    _NAP = 0.001

    def __init__(self, fault: Callable[[], Fault | None]) -> None:
        self.fault = fault

    def block(self, seconds: float | None) -> None:
        """Sleep shortly, because nothing can wake it."""
        if seconds == 0:
            os.sched_yield()
        else:
            time.sleep(self._NAP if seconds is None else min(self._NAP, max(0.0, seconds)))


_LOOKS_MOST, _LOOKS_LEAST, _GROW = 150, 8, 16
_YIELDING, _LONG = 60e-6, 0.5e-3


class Adaptive:
    """Bare looks double as an estimate of the peer's speed: halved on failure, grown on success.

    With as many parties as cores a bare look only keeps the peer from running, so there are
    none then.

    Waking a sleeper takes longer than yielding for sixty microseconds: two parties that answer
    each other and once both slept would go on sleeping. So a party that slept in a wait which was
    brief all in all yields longer the next times, until a wait is long once more: to yield through
    that would cost more than the wake-up.
    """

    def __init__(self, n_reader: int, clock: Clock = monotonic, cores: int | None = None) -> None:
        cores = cores or len(os.sched_getaffinity(0))
        self._least = _LOOKS_LEAST if n_reader < cores else 0
        self._most = _LOOKS_MOST if n_reader < cores else 0
        self._looks = self._most
        self._yielding = _YIELDING
        self._clock = clock

    def wait(self, look: Callable[[], bool], point: WaitPoint, timeout: float | None) -> bool:
        """See `WaitStrategy.wait`."""
        if timeout is not None and timeout <= 0:
            return last_look(look, point)
        for _ in range(self._looks):
            if look():
                self._looks = min(self._most, self._looks + _GROW)
                return True
        self._looks = max(self._least, self._looks >> 1)
        clock = self._clock
        now = clock()
        end = None if timeout is None else now + timeout
        calm = now + self._yielding
        long = now + _LONG
        slept = False
        news = True
        while not look():
            if news:
                raise_fault(point)
                news = False
            now = clock()
            if end is not None and now >= end:
                return last_look(look, point)
            if now < calm:
                os.sched_yield()
                continue
            point.announce_sleep()
            if look():
                return True
            slept = True
            point.block(None if end is None else end - now)
            news = True  # only now can there be a fault that was not there before
            now = clock()
            calm = now + _YIELDING
        if slept:
            self._yielding = min(2 * self._yielding, _LONG) if now < long else _YIELDING
        return True


_QUIET_AFTER = 3.0
_NEWS_EVERY = 0.005


class Yielding:
    """Burns a core while it waits; `nap` seconds of sleep per look after 3 s without success."""

    def __init__(self, nap: float = 0.0, clock: Clock = monotonic) -> None:
        self._nap = nap
        self._clock = clock
        self._last_success = clock()

    def wait(self, look: Callable[[], bool], point: WaitPoint, timeout: float | None) -> bool:
        """See `WaitStrategy.wait`."""
        if timeout is not None and timeout <= 0:
            return last_look(look, point)
        clock = self._clock
        now = clock()
        end = None if timeout is None else now + timeout
        news = now
        while not look():
            raise_fault(point)
            now = clock()
            if end is not None and now >= end:
                return last_look(look, point)
            if self._nap and now - self._last_success >= _QUIET_AFTER:
                point.announce_sleep()
                point.block(self._nap if end is None else min(self._nap, end - now))
            elif now >= news:
                point.block(0)
                news = now + _NEWS_EVERY
            else:
                os.sched_yield()
        self._last_success = now
        return True


_SPIN = 1.0
_LOOK_AGAIN = 5.0


class SpinThenSleep:
    """Spins after recent traffic, sleeps later; the periodic look covers a lost wake-up.

    For a second after the last success it spins; then it blocks, and looks every 5 s.
    """

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._last_success = clock()

    def wait(self, look: Callable[[], bool], point: WaitPoint, timeout: float | None) -> bool:
        """See `WaitStrategy.wait`."""
        if timeout is not None and timeout <= 0:
            return last_look(look, point)
        clock = self._clock
        now = clock()
        end = None if timeout is None else now + timeout
        news = now
        while not look():
            raise_fault(point)
            now = clock()
            if end is not None and now >= end:
                return last_look(look, point)
            if now - self._last_success >= _SPIN:
                point.announce_sleep()
                if look():
                    break
                point.block(_LOOK_AGAIN if end is None else min(_LOOK_AGAIN, end - now))
            elif now >= news:
                point.block(0)
                news = now + _NEWS_EVERY
            else:
                os.sched_yield()
        self._last_success = clock()
        return True
