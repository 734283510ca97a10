"""The wall clock of a process that takes no orders: a signal makes it look how far to jump.

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
"""Neither what interrupts a role nor what ends one."""


def listen(folder: Path, role: str) -> None:
    """From now on this process, and those it forks, move their clock when told to."""
    log = Log(folder / f"{role}.jsonl", role)

    def jump(_number: int, _frame: FrameType | None) -> None:
        seconds = float(_where(folder, role).read_text())
        log.write("jumped", s=round(clock.jump(seconds), 3), pid=os.getpid())

    signal.signal(JUMPS, jump)


def move(folder: Path, role: str, pid: int, seconds: float) -> bool:
    """Have a process move its clock; False if it does not listen, and nothing was done."""
    if not _catches(pid):
        return False
    _where(folder, role).write_text(str(seconds))
    os.kill(pid, JUMPS)
    return True


def _where(folder: Path, role: str) -> Path:
    return folder / f"{role}.jump"


def _catches(pid: int) -> bool:
    """A process that has no handler would die of it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt")), 0)
    return bool(caught >> (JUMPS - 1) & 1)
