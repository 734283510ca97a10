"""The wall clock of a process that takes no orders: a signal makes it read how far to jump.

Whoever the target forks inherits the handler; whoever it starts afresh gets it with the main
module (:mod:`killpoint.systems.coordinator.main`).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType

from killpoint.history.log import Log
from killpoint.runner.environment import clock

JUMPS = signal.SIGRTMIN + 3
"""Signal for a jump; it neither interrupts a role nor ends one."""


def listen(folder: Path, role: str) -> None:
    """Have this process, and those it forks, move their clock at the signal."""
    log = Log(folder / f"{role}.jsonl", role)

    def jump(_number: int, _frame: FrameType | None) -> None:
        seconds = float(_where(folder, role).read_text())
        log.write("jumped", s=round(clock.jump(seconds), 3), pid=os.getpid())

    signal.signal(JUMPS, jump)


def move(folder: Path, role: str, pid: int, seconds: float) -> bool:
    """Have a process move its clock; return False if it has no handler, and nothing was done."""
    if not _catches(pid):
        return False
    _where(folder, role).write_text(str(seconds))
    os.kill(pid, JUMPS)
    return True


def _where(folder: Path, role: str) -> Path:
    return folder / f"{role}.jump"


def _catches(pid: int) -> bool:
    """Return whether the process handles the signal, of which it would otherwise die."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt")), 0)
    return bool(caught >> (JUMPS - 1) & 1)
