"""Points before each line of the target's own code, for state that tasks share beside the memory.

Its tasks must be threads: see :mod:`.thread_tasks`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from killpoint.interfaces import World


class Lines:
    """Tracer that makes every line of a task a point, at which others may go on.

    ``count``: number of lines that were points, over all tasks.
    """

    def __init__(self, world: World, is_own: Callable[[CodeType], bool]) -> None:
        self._world = world
        self._point, self._recording = world.point, world.recording
        self._is_own = is_own
        self._known: dict[CodeType, Any] = {}
        """Trace function of code that was entered before, or None."""
        self.count = 0

    def traced(self, run: Callable[[], None]) -> Callable[[], None]:
        """Return the task, traced."""

        def body() -> None:
            sys.settrace(self._enter)
            try:
                run()
            finally:
                sys.settrace(None)

        return body

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        code = frame.f_code
        try:
            return self._known[code]
        except KeyError:
            self._known[code] = traces = self._line if self._is_own(code) else None
            return traces

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if event == "line":
            self.count += 1
            self._point()
            if self._recording:
                code = frame.f_code
                where = f"{Path(code.co_filename).name}:{frame.f_lineno}"
                self._world.note(f"{where} in {code.co_name}")
        return self._line
