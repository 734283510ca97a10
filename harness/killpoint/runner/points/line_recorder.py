"""Line recorder: notes in a play's map which lines of the target's own code a process runs.

It records from a role's start, in all of its threads and in what it forks, and only where the play
asks for it: the map is in the play's folder. Each line costs once, or little. Nothing is recorded
where coverage is measured or another trace function is active.
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from killpoint.points.target_lines import map_of, runnable

_TOOL = 5
"""Tool of ``sys.monitoring``, unlike those of the watches for points."""
_MONITORING: Any = getattr(sys, "monitoring", None)
"""``sys.monitoring``, which Python 3.12 and later have; None before."""
_FAILED = ctypes.c_void_p(-1).value


def begin(folder: Path) -> None:
    """Record from now on, if the play in this folder is recorded and this process does not yet."""
    found = map_of(folder)
    if found is None or _is_watched():
        return
    path, places = found
    seen = _mapped(path)
    if seen is None:
        return
    if _MONITORING is not None:
        _monitor(seen, places)
    else:
        _Tracer(seen, places).begin()


def _is_watched() -> bool:
    """Return whether this process is traced already, by a recorder or by another."""
    if sys.gettrace() is not None:
        return True
    if _MONITORING is not None and _MONITORING.get_tool(_TOOL) is not None:
        return True
    if "coverage" not in sys.modules:
        return False
    from coverage import Coverage

    return Coverage.current() is not None


def _mapped(path: Path) -> memoryview | None:
    """Return the shared memory of a file; it keeps no descriptor, which the target might close."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    kinds = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int
    libc.mmap.argtypes = *kinds, ctypes.c_long
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        both = mmap.PROT_READ | mmap.PROT_WRITE
        at = libc.mmap(None, size, both, mmap.MAP_SHARED, fd, 0)
    finally:
        os.close(fd)
    if at in (None, _FAILED):
        return None
    return memoryview((ctypes.c_ubyte * size).from_address(at)).cast("B")


def _monitor(seen: memoryview, places: dict[str, tuple[int, int]]) -> None:
    """Record by ``sys.monitoring``: a line is reported once, and never again."""
    disable, files = _MONITORING.DISABLE, places.get

    def line_is_run(code: CodeType, line: int) -> Any:
        place = files(code.co_filename)
        if place is not None and 0 < line < place[1]:
            seen[place[0] + line] = 1
        return disable

    _MONITORING.use_tool_id(_TOOL, "killpoint-lines")
    _MONITORING.register_callback(_TOOL, _MONITORING.events.LINE, line_is_run)
    _MONITORING.set_events(_TOOL, _MONITORING.events.LINE)
    # Not while the interpreter takes itself apart: what a callback needs may be gone by then.
    atexit.register(_MONITORING.set_events, _TOOL, 0)


class _Tracer:
    """Recorder by ``sys.settrace``: a function all of whose lines were seen is left alone."""

    def __init__(self, seen: memoryview, places: dict[str, tuple[int, int]]) -> None:
        self._seen, self._places = seen, places
        self._known: dict[int, list[Any]] = {}
        """By the code's id: the code, which keeps the id its own, and its frames' trace function;
        None where nothing is to be seen any more."""

    def begin(self) -> None:
        known, learn, name_of = self._known.get, self._learn, id

        def called(frame: FrameType, _event: str, _arg: object) -> Any:
            code = frame.f_code
            entry = known(name_of(code)) or learn(code)
            return entry[1]

        threading.settrace(called)
        sys.settrace(called)
        # Not while the interpreter takes itself apart: what a callback needs may be gone by then.
        atexit.register(sys.settrace, None)

    def _learn(self, code: CodeType) -> list[Any]:
        entry: list[Any] = [code, None]
        place = self._places.get(code.co_filename)
        if place is not None:
            entry[1] = self._for_frames(code, place, entry)
        self._known[id(code)] = entry
        return entry

    def _for_frames(self, code: CodeType, place: tuple[int, int], entry: list[Any]) -> Any:
        seen, (start, length) = self._seen, place
        left = {line for line in runnable(code) if line < length}

        def step(frame: FrameType, event: str, _arg: object) -> Any:
            line = frame.f_lineno
            if event == "line" and line is not None and line < length:
                seen[start + line] = 1
                left.discard(line)
            if not left:
                entry[1] = None
                frame.f_trace_lines = False
            return step

        return step if left else None
