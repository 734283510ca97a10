"""Tracing of the target's own code: a trace function, or ``sys.monitoring``.

Figures for both are in the facts on crash points.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any

OnLine = Callable[[CodeType, int, int], None]
"""Callback with the code, its line, and the instruction's offset; an exception from it is raised
there."""

PASSED_OVER: dict[str, frozenset[int]] = {}
"""By file, lines that are neither points nor counted: those that the harness adds to a target's
code, so that the same number means the same place with it and without."""
_TOOL = 4
_MONITORING: Any = getattr(sys, "monitoring", None)
"""``sys.monitoring``, which Python 3.12 and later have; None before."""


def traced(
    is_own: Callable[[CodeType], bool], on_line: OnLine, opcodes: bool
) -> Traced | Monitored:
    """Return a context in which ``on_line`` runs before each line, or opcode, of the target."""
    if _MONITORING is not None:
        return Monitored(is_own, on_line, opcodes)
    return Traced(is_own, on_line, opcodes)


def begin_below(watch: Traced | Monitored, is_own: Callable[[CodeType], bool]) -> None:
    """Begin a watch that includes the target's frames already on the stack, as they go on."""
    frames: list[FrameType] = []
    frame = inspect.currentframe()
    while frame is not None:
        if is_own(frame.f_code):
            frames.append(frame)
        frame = frame.f_back
    watch.__enter__()
    for frame in frames:
        watch.include(frame)


def abandon() -> None:
    """End a watch that a fork has copied from its parent, where no other code would end it.

    A coverage tracer of this process goes on.
    """
    if _MONITORING is None:
        tracer = sys.gettrace()
        watch = getattr(tracer, "__self__", None)
        if isinstance(watch, Traced):
            tracer = watch.before
        sys.settrace(tracer if type(tracer).__module__ == "coverage" else None)
    elif _MONITORING.get_tool(_TOOL) is not None:
        _MONITORING.set_events(_TOOL, 0)
        for event in (_MONITORING.events.INSTRUCTION, _MONITORING.events.LINE):
            _MONITORING.register_callback(_TOOL, event, None)
        _MONITORING.free_tool_id(_TOOL)


class Traced:
    """Watch by ``sys.settrace``."""

    def __init__(self, is_own: Callable[[CodeType], bool], on_line: OnLine, opcodes: bool) -> None:
        self._is_own = is_own
        self._on_line = on_line
        self._opcodes = opcodes
        self._event = "opcode" if opcodes else "line"
        self._pid = os.getpid()
        self.before: Any = None
        """Trace function of this thread when the watch began."""

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        sys.settrace(self._call)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        sys.settrace(self.before)

    def _call(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event != "call" or not self._is_own(frame.f_code):
            return None
        if self._opcodes:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def include(self, frame: FrameType) -> None:
        """Watch a frame that was on the stack before the watch began."""
        if self._opcodes:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        frame.f_trace = self._step

    def _step(self, frame: FrameType, event: str, _arg: object) -> Any:
        if os.getpid() != self._pid:
            abandon()
            return None
        if event == self._event and _is_point(frame.f_code, frame.f_lineno or 0):
            self._on_line(frame.f_code, frame.f_lineno or 0, frame.f_lasti)
        return self._step


class Monitored:
    """Watch by ``sys.monitoring``, where a process's first ``sys.settrace`` sees no opcode."""

    def __init__(self, is_own: Callable[[CodeType], bool], on_line: OnLine, opcodes: bool) -> None:
        self._is_own = is_own
        self._on_line = on_line
        events = _MONITORING.events
        self._event = events.INSTRUCTION if opcodes else events.LINE
        self._opcodes = opcodes
        self._pid = os.getpid()
        self._included: list[CodeType] = []

    def __enter__(self) -> None:
        self._thread = threading.get_ident()  # events come from every thread; settrace's do not
        _MONITORING.use_tool_id(_TOOL, "killpoint")
        _MONITORING.register_callback(_TOOL, self._event, self._step)
        _MONITORING.set_events(_TOOL, self._event)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for code in self._included:
            _MONITORING.set_local_events(_TOOL, code, 0)
        self._included.clear()
        _MONITORING.set_events(_TOOL, 0)
        _MONITORING.register_callback(_TOOL, self._event, None)
        _MONITORING.free_tool_id(_TOOL)
        _MONITORING.restart_events()

    def include(self, frame: FrameType) -> None:
        """Watch a frame that was on the stack before the watch began: its code changes at once."""
        self._included.append(frame.f_code)
        _MONITORING.set_local_events(_TOOL, frame.f_code, self._event)

    def _step(self, code: CodeType, _place: int) -> Any:
        if os.getpid() != self._pid:
            abandon()
            return None
        if not self._is_own(code):
            return _MONITORING.DISABLE
        if threading.get_ident() == self._thread:
            frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] # the only way to frames
            line = frame.f_lineno or 0
            if _is_point(code, line):
                self._on_line(code, line, frame.f_lasti)
        return None


def _is_point(code: CodeType, line: int) -> bool:
    return line not in PASSED_OVER.get(code.co_filename, ())
