"""Opcode points: every instruction of the target's own code that an operation executes, in order.

Between two of them everything is told apart that Python itself tells apart: a lock taken and the
block entered, a value made and stored. One instruction may still copy a gigabyte.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any

from killpoint.points.lines import OnLine

_TOOL = 4
_MONITORING: Any = getattr(sys, "monitoring", None)


def opcodes(is_own: Callable[[CodeType], bool], on_opcode: OnLine) -> _Traced | _Monitored:
    """A context in which ``on_opcode(code, line)`` runs before each instruction of the target's.

    What it raises appears there. Uses ``sys.monitoring`` where it exists (3.12+): under these
    versions the first ``sys.settrace`` of a process sees no instruction at all.
    """
    if _MONITORING is not None:
        return _Monitored(is_own, on_opcode)
    return _Traced(is_own, on_opcode)


class _Traced:
    def __init__(self, is_own: Callable[[CodeType], bool], on_opcode: OnLine) -> None:
        self._is_own = is_own
        self._on_opcode = on_opcode

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
        if event != "call" or not self._is_own(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._opcode

    def _opcode(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "opcode":
            self._on_opcode(frame.f_code, frame.f_lineno or 0)
        return self._opcode


class _Monitored:
    def __init__(self, is_own: Callable[[CodeType], bool], on_opcode: OnLine) -> None:
        self._is_own = is_own
        self._on_opcode = on_opcode

    def __enter__(self) -> None:
        self._thread = threading.get_ident()  # events come from every thread; settrace's do not
        events = _MONITORING.events.INSTRUCTION
        _MONITORING.use_tool_id(_TOOL, "killpoint")
        _MONITORING.register_callback(_TOOL, events, self._instruction)
        _MONITORING.set_events(_TOOL, events)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        _MONITORING.set_events(_TOOL, 0)
        _MONITORING.register_callback(_TOOL, _MONITORING.events.INSTRUCTION, None)
        _MONITORING.free_tool_id(_TOOL)
        _MONITORING.restart_events()

    def _instruction(self, code: CodeType, _offset: int) -> Any:
        if not self._is_own(code):
            return _MONITORING.DISABLE
        if threading.get_ident() == self._thread:
            # The frame below this one is the target's.
            self._on_opcode(code, sys._getframe(1).f_lineno or 0)  # pyright: ignore[reportPrivateUsage] # the only way to frames
        return None
