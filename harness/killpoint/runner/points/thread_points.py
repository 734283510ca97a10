"""Line points in the threads that the target starts itself, which carry data for a role.

Their lines are counted together, from the role's first call after the making of its end until its
close.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from killpoint.points.with_exits import leaves_with
from killpoint.runner.processes.target_agent import Armed, TargetAgent

_TOOL = 3
_MONITORING: Any = getattr(sys, "monitoring", None)
"""``sys.monitoring``, which Python 3.12 and later have; None before."""


class ThreadPoints:
    """Watch over every thread but the main one, active only while a point is armed."""

    def __init__(self, agent: TargetAgent, is_own: Callable[[CodeType], bool]) -> None:
        """``presence``: the channel by which any thread may report that it is at a point."""
        self._agent = agent
        self._is_own = is_own
        self._arm: Armed | None = None
        self._counts = False
        self._count = 0
        self._reached = False
        self._lock = threading.Lock()
        self._main = threading.main_thread().ident
        self._pid = os.getpid()

    def watch(self) -> None:
        """Watch threads that begin from now on; called before the role's end is made."""
        self._arm = self._agent.due("carry")
        if self._arm is None:
            return
        if _MONITORING is None:
            threading.settrace(self._call)
            return
        _MONITORING.use_tool_id(_TOOL, "killpoint-threads")
        _MONITORING.register_callback(_TOOL, _MONITORING.events.LINE, self._monitored)
        _MONITORING.set_events(_TOOL, _MONITORING.events.LINE)

    def count(self) -> None:
        """Count lines from now on; called before each call."""
        self._counts = self._arm is not None

    def end(self) -> None:
        """Stop counting; called before the end is closed."""
        arm, self._arm = self._arm, None
        if arm is None:
            return
        self._counts = False
        if _MONITORING is None:
            threading.settrace(None)
        else:
            _MONITORING.set_events(_TOOL, 0)
            _MONITORING.register_callback(_TOOL, _MONITORING.events.LINE, None)
            _MONITORING.free_tool_id(_TOOL)
        if not self._reached:
            self._agent.log.write("lines", op="carry", arm=arm.id, count=self._count)

    def _call(self, frame: FrameType, event: str, _arg: object) -> Any:
        return self._step if event == "call" and self._is_own(frame.f_code) else None

    def _step(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line" and not leaves_with(frame.f_code, frame.f_lasti):
            self._on_line(frame.f_code, frame.f_lineno or 0)
        return self._step

    def _monitored(self, code: CodeType, line: int) -> Any:
        if not self._is_own(code):
            return _MONITORING.DISABLE
        if threading.get_ident() == self._main:
            return None
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] # the only way to frames
        if not leaves_with(code, frame.f_lasti):
            self._on_line(code, line)
        return None

    def _on_line(self, code: CodeType, line: int) -> None:
        with self._lock:
            arm, at = self._arm, self._count
            if not self._counts or arm is None or self._reached or os.getpid() != self._pid:
                return
            self._count += 1
            if at != arm.point.line:
                return
            self._reached = True
        self._agent.meet(arm, f"{Path(code.co_filename).name}:{line} in {code.co_name}")
