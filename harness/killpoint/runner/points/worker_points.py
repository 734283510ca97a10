"""Line points in a worker, between the calls of the worker's own methods.

Only lines of the main thread are seen, and nothing is traced unless a point is armed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING

from killpoint.runner.processes.target_agent import TARGET, Armed, TargetAgent

if TYPE_CHECKING:
    from killpoint.points.tracing import Monitored, Traced


class WorkerLines:
    """Watch from the end of a worker's method to the next one: the ops ``start`` and ``serve``."""

    def __init__(self, agent: TargetAgent) -> None:
        """Start without a watch."""
        self._agent = agent
        self._watch: _Watch | None = None

    def begin(self, op: str) -> None:
        """Begin to watch; called as a method is about to return to the target."""
        if threading.current_thread() is not threading.main_thread():
            return
        arm = self._agent.due(op)
        is_own = _own_code() if arm is not None else None
        if arm is None:
            return
        if is_own is None:
            self._agent.log.write("unable", error="the target has no points")
            return
        self._watch = _Watch(self._agent, arm, is_own)

    def end(self) -> None:
        """End the watch; called as the next of its methods begins."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.end()


class _Watch:
    def __init__(self, agent: TargetAgent, arm: Armed, is_own: Callable[[CodeType], bool]) -> None:
        from killpoint.points.tracing import abandon, begin_below, traced
        from killpoint.points.with_exits import leaves_with

        abandon()  # of the process that this one was forked from
        self._agent = agent
        self._arm = arm
        self._count = 0
        self._reached = False
        self._due = False
        """True if its exception waits for the end of a ``with`` block."""
        self._leaves = leaves_with
        self._traced: Traced | Monitored = traced(
            is_own, self._on_line, opcodes=arm.point.depth == "opcode"
        )
        begin_below(self._traced, is_own)

    def end(self) -> None:
        self._traced.__exit__(None, None, None)
        if not self._reached:
            arm = self._arm
            self._agent.log.write("lines", op=arm.point.op, arm=arm.id, count=self._count)

    def _on_line(self, code: CodeType, line: int, offset: int) -> None:
        at, self._count = self._count, self._count + 1
        here = self._due or at == self._arm.point.line
        self._due = here and self._arm.throws and self._leaves(code, offset)
        if self._reached or self._due or not here:
            return
        self._reached = True
        where = f"{Path(code.co_filename).name}:{line} in {code.co_name}"
        self._agent.meet(self._arm, where)


def _own_code() -> Callable[[CodeType], bool] | None:
    """Return the predicate for the target's code, in a process that the target has started."""
    from killpoint.targets.protocol import HasPoints
    from killpoint.targets.registry import build

    target = build(os.environ[TARGET])
    return target.is_own_code if isinstance(target, HasPoints) else None
