"""Python stacks of running processes, taken by py-spy from outside, without pausing them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from killpoint.inspection.model import Thread
from killpoint.inspection.waits import waits

_LIBRARY = re.compile(r"/lib(64)?/python3\.\d+/(?!(site|dist)-packages/)")
_LARGE = 1 << 20  # bytes of a source file
_TRIES = 3
"""A look without pausing may meet frames that change as they are read."""


class _Frame(msgspec.Struct):
    name: str
    filename: str
    short_filename: str | None
    line: int


class _Dumped(msgspec.Struct):
    thread_name: str | None
    frames: list[_Frame]
    thread_id: int = 0
    os_thread_id: int | None = None
    owns_gil: bool = False


_dumps = msgspec.json.Decoder(list[_Dumped])


def stacks(pids: Sequence[int], within: float = 2.0) -> dict[int, tuple[Thread, ...]]:
    """Return each process's threads; none for one that is no Python, or cannot be traced."""
    tool = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if tool is None or not pids:
        return {}
    one = partial(_stack, tool, within)
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(pids, pool.map(one, pids), strict=True))


def _stack(tool: str, within: float, pid: int) -> tuple[Thread, ...]:
    command = [tool, "dump", "--nonblocking", "--json", "--pid", str(pid)]
    for _ in range(_TRIES):
        try:
            done = subprocess.run(command, capture_output=True, timeout=within, check=False)
            return tuple(_thread(pid, dumped) for dumped in _dumps.decode(done.stdout))
        except (OSError, subprocess.TimeoutExpired):
            return ()
        except msgspec.DecodeError:
            continue
    return ()


def _thread(pid: int, dumped: _Dumped) -> Thread:
    frames = [(f"{f.name} ({f.short_filename or f.filename}:{f.line})", f) for f in dumped.frames]
    own = (text for text, frame in frames if not _is_pythons(frame.filename))
    return Thread(
        dumped.thread_name or "a thread",
        tuple(text for text, _ in frames),
        next(own, frames[0][0] if frames else "no Python"),
        waits((frame.name, frame.filename) for frame in dumped.frames),
        dumped.os_thread_id or 0,
        dumped.owns_gil,
        _source(pid, dumped.frames[0]) if dumped.frames else "",
    )


def _source(pid: int, frame: _Frame) -> str:
    """The line of a frame, as the process's own file system has it; empty if it has none."""
    try:
        path = Path(f"/proc/{pid}/root", frame.filename.lstrip("/"))
        if not frame.filename.startswith("/") or path.stat().st_size > _LARGE:
            return ""
        return path.read_text(errors="replace").splitlines()[frame.line - 1].strip()
    except (OSError, IndexError):
        return ""


def _is_pythons(path: str) -> bool:
    """Return whether it is code of Python's own library, wherever that is installed."""
    return path.startswith("<") or bool(_LIBRARY.search(path))
