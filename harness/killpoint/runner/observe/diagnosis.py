"""The state of a process, read from outside without changing it."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

_SEGMENT = re.compile(rb" /dev/shm/([^\s]+)$", re.MULTILINE)
"""Segment name at the end of a line of ``maps``; after an unlinked one the kernel adds a word."""
_DRAWN = re.compile(r"\b0x[0-9a-fA-F]+\b|(?<=\bpid )\d+|(?<=\[)\d+(?=\])")
_LINE = 300
_LOOKS, _APART = 8, 0.03
"""Number of looks at a state, and seconds between two of them."""
_STACKS, _NEARLY_ALL = 30, 0.9
"""Number of stacks of a process that runs, and the share of them that has to agree."""
_ENOUGH, _READ_FOR, _AT_MOST = 15, 2.0, 15.0
"""Number of stacks after which no further one is read once the first so many seconds are over, and
the seconds after which none is read at all: of a few, all may be of the same function by chance."""
_TRACKERS = re.compile(r"resource_tracker|^\s+warnings\.warn\(")
"""Lines of a warning by the resource tracker: its text, and the line of its code below."""


def state(pid: int) -> str:
    """Return the process's state letter from the kernel, empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return ""


def cpu_seconds(pid: int) -> float:
    """Return the seconds of CPU time used so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100
    except (OSError, IndexError):
        return 0.0


def mapped_segments(pid: int) -> list[str]:
    """Return the names under its /dev/shm that the process maps and that still exist there."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return []
    found = {os.fsdecode(name) for name in _SEGMENT.findall(maps)}
    return sorted(name for name in found if Path(f"/proc/{pid}/root/dev/shm", name).exists())


def stack(pid: int, within: float = 5.0, *, pausing: bool = False) -> list[str]:
    """Return the Python stack of a process's main thread, innermost first, by py-spy.

    ``pausing``: whether it stands still while it is read; of one that runs half a stack is read
    now and then.
    """
    return _frames(pid, within, pausing=pausing) or [_kernel_wait(pid)]


def _frames(pid: int, within: float, *, pausing: bool) -> list[str]:
    """Return the stack as `stack` does; empty if it could not be read."""
    tool = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if tool is None:
        return []
    frames: list[str] = []
    ways: list[list[str]] = [["--nonblocking"], ["--nonblocking"], []]
    for way in ways[::-1] if pausing else ways:
        # A look without pausing may meet frames that change; a stopped process allows no other.
        if not frames and (way or state(pid) != "T"):
            frames = _dump([tool, "dump", *way, "--pid", str(pid)], within)
    return frames


def last_line(said: Path) -> str:
    """Return the last line of a process's standard error in a file, empty if there is none.

    Addresses and process numbers, which no two plays share, are left out, and so are the warnings
    that multiprocessing's resource tracker writes to the same file once the process has ended.
    """
    try:
        lines = said.read_text("utf-8", "replace").split("\n")
    except OSError:
        return ""
    own = (line for line in reversed(lines) if line.strip() and not _TRACKERS.search(line))
    last = next(own, "")
    return _DRAWN.sub("…", " ".join(last.split()))[:_LINE]


def seen(pid: int) -> dict[str, object]:
    """Return the stack and the state of a process, as events have them.

    Where one that runs is at one look is chance: its stack ends with the function that it is in, or
    has called something from, at nearly each of many.
    """
    frames, letter = stack(pid), steady_state(pid)
    if letter == "R":
        frames = _shared(_stacks(pid) or [frames])
    return {"stack": frames[:6], "state": letter}


def _stacks(pid: int) -> list[list[str]]:
    """Return the stacks of a process that runs, as far as they could be read whole."""
    found: list[list[str]] = []
    began = time.monotonic()
    while len(found) < _STACKS:
        took = time.monotonic() - began
        if took >= (_READ_FOR if not found or len(found) >= _ENOUGH else _AT_MOST):
            break
        if frames := _frames(pid, _AT_MOST - took, pausing=True):
            found.append(frames)
    return found


def _shared(stacks: list[list[str]]) -> list[str]:
    """Return the frames that nearly all share, innermost first, whatever their lines are."""
    agree, depth = stacks, 0
    while True:
        longer = [frames for frames in agree if len(frames) > depth]
        calls = Counter(_call(frames[-depth - 1]) for frames in longer)
        call, count = max(calls.items(), key=lambda each: each[1], default=("", 0))
        if count < _NEARLY_ALL * len(stacks):
            break
        depth += 1
        agree = [frames for frames in longer if _call(frames[-depth]) == call]
    return min(agree, key=lambda frames: _line(frames[-depth]))[-depth:] if depth else stacks[0]


def _call(frame: str) -> str:
    return frame.rpartition(":")[0]


def _line(frame: str) -> int:
    line = frame.rpartition(":")[2].rstrip(")")
    return int(line) if line.isdigit() else 0


def steady_state(pid: int) -> str:
    """Return its state letter; R only if it runs at each look.

    A process that waits for events runs now and then: that it does so at one look is chance.
    """
    for _ in range(_LOOKS):
        letter = state(pid)
        if letter != "R":
            return letter
        select.select([], [], [], _APART)
    return "R"


_OURS = ("killpoint/runner/", "killpoint/systems/")
"""Folders whose frames are the harness's own."""


def _dump(command: list[str], within: float) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=within, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [
        line.strip()
        for line in done.stdout.splitlines()
        if line.startswith("    ") and not any(folder in line for folder in _OURS)
    ]


def _kernel_wait(pid: int) -> str:
    try:
        waits = Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return "gone"
    return f"the kernel's {waits}" if waits not in ("", "0") else "its own code, running"
