"""State of a run: cases that ended, cases that go on and since when, and the time left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from killpoint.durations import Expected
from killpoint.verdict import CaseOutcome

_TRUSTED_AFTER = 20.0
"""Seconds of the machine after which its own pace counts for more than the measured one."""
_ALMOST = 0.95
"""The most that is believed done of a case that goes on."""


class Running(msgspec.Struct):
    """A case that goes on."""

    id: str
    since: float
    points_done: int = 0
    points_counted: int = 0
    swept_since: float = 0.0
    """Time at which its first points had been counted."""

    def rate(self, now: float) -> float | None:
        """Points a second; None before the first is done."""
        swept = now - self.swept_since
        return self.points_done / swept if self.points_done and swept > 0 else None


class Score:
    """State of a judgement: written by it, from several threads; read by the display.

    Args:
        expected: the cases of this run, and what each is expected to take.
        clock: seconds that only grow.
    """

    def __init__(
        self, expected: Mapping[str, Expected], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock = clock
        self.total = len(expected)
        self.done = 0
        self.violated = 0
        self.last: CaseOutcome | None = None
        self._expected = expected
        self._lock = threading.Lock()
        self._left = dict(expected)
        self._running: dict[str, Running] = {}
        self._began = clock()

    def told(self, case: str, points_done: int, points_counted: int) -> None:
        """A case goes on; the first word of it is its begin."""
        with self._lock:
            now = self.clock()
            running = self._running.setdefault(case, Running(case, now))
            if points_counted and not running.points_counted:
                running.swept_since = now
            running.points_done, running.points_counted = points_done, points_counted

    def ended(self, outcome: CaseOutcome) -> None:
        """A case has ended."""
        with self._lock:
            self._running.pop(outcome.id, None)
            self._left.pop(outcome.id, None)
            self.done += 1
            self.violated += outcome.outcome == "violated"
            self.last = outcome

    def running(self) -> list[Running]:
        """Return the cases that go on, the longest first."""
        with self._lock:
            return sorted(map(msgspec.structs.replace, self._running.values()), key=_since)

    def elapsed(self) -> float:
        """Seconds since the begin."""
        return self.clock() - self._began

    def left(self) -> float:
        """About how many seconds all will still take, at the pace so far.

        At the begin the measured durations are believed; the more is done, the more counts how
        long that took here.
        """
        with self._lock:
            now = self.clock()
            done = sum(e.cost for id, e in self._expected.items() if id not in self._left)
            at_least = 0.0
            for each in self._running.values():
                known = self._left.get(each.id)
                if known is not None and known.seconds > 0:
                    age = now - each.since
                    done += known.cost * min(age / known.seconds, _ALMOST)
                    at_least = max(at_least, known.seconds - age)
        whole = sum(each.cost for each in self._expected.values())
        pace = (done + _TRUSTED_AFTER) / (now - self._began + _TRUSTED_AFTER)
        return max((whole - done) / pace, at_least) if self.done < self.total else 0.0


def _since(running: Running) -> float:
    return running.since
