"""Line points: every line of the target's own code that an operation executes, in order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any

OnLine = Callable[[CodeType, int], None]
_TOOL = 4
_MONITORING: Any = getattr(sys, "monitoring", None)


def lines(is_own: Callable[[CodeType], bool], on_line: OnLine) -> _Traced | _Monitored:
    """A context in which ``on_line(code, line)`` runs before each line of the target's code.

    What ``on_line`` raises appears in the target's code at that line. Uses ``sys.monitoring``
    where it exists (3.12+) and ``sys.settrace`` before: figures in the facts on crash points.
    """
    return _Monitored(is_own, on_line) if _MONITORING is not None else _Traced(is_own, on_line)


class _Traced:
    def __init__(self, is_own: Callable[[CodeType], bool], on_line: OnLine) -> None:
        self._is_own = is_own
        self._on_line = on_line

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._call)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, _arg: object) -> Any:
        return self._line if event == "call" and self._is_own(frame.f_code) else None

    def _line(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            self._on_line(frame.f_code, frame.f_lineno)
        return self._line


class _Monitored:
    def __init__(self, is_own: Callable[[CodeType], bool], on_line: OnLine) -> None:
        self._is_own = is_own
        self._on_line = on_line

    def __enter__(self) -> None:
        self._thread = threading.get_ident()  # events come from every thread; settrace's do not
        _MONITORING.use_tool_id(_TOOL, "killpoint")
        _MONITORING.register_callback(_TOOL, _MONITORING.events.LINE, self._line)
        _MONITORING.set_events(_TOOL, _MONITORING.events.LINE)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        _MONITORING.set_events(_TOOL, 0)
        _MONITORING.register_callback(_TOOL, _MONITORING.events.LINE, None)
        _MONITORING.free_tool_id(_TOOL)
        _MONITORING.restart_events()

    def _line(self, code: CodeType, line: int) -> Any:
        if not self._is_own(code):
            return _MONITORING.DISABLE
        if threading.get_ident() == self._thread:
            self._on_line(code, line)
        return None
