"""The role's half of a fault at a time: a timer runs while an operation does."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Generator

from killpoint.history.log import Log
from killpoint.points.timers import SignalTimer
from killpoint.runner.protocol import Arm


class TimeGuard:
    """Timer of, or fault in, the operations of one kind in one role."""

    def __init__(self, arm: Arm, log: Log) -> None:
        """``arm``: a point at a time, or a count of times.

        Raises:
            Refused: the kernel provides no timer.
        """
        self.arm = arm
        self._log = log
        self._to_come = arm.point.nth
        self._timer: SignalTimer | None = None
        if arm.point.after is not None:
            self._timer = SignalTimer(signal.SIGSTOP if arm.stop else signal.SIGKILL)

    @contextlib.contextmanager
    def during(self) -> Generator[None]:
        """Run one operation with the timer on, or measure its duration."""
        if self._to_come:
            self._to_come -= 1
            yield
        elif self._timer is not None and self.arm.point.after is not None:
            if self._timer.fired:  # it stopped the role in a call before this one
                yield
                return
            with self._timer.running(self.arm.point.after):
                yield
        else:
            began = time.perf_counter_ns()
            try:
                yield
            finally:
                took = time.perf_counter_ns() - began
                self._log.write("took", op=self.arm.point.op, arm=self.arm.id, ns=took)
