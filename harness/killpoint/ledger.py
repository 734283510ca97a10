"""What a play leaves behind: processes, shared-memory names, temporary files; and its removal."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path

import msgspec

from killpoint.history.record import History

_SHM = Path("/dev/shm")


class Ledger(msgspec.Struct):
    """What was found after the last party's exit, owned by this play and by no other."""

    processes: list[str] = []
    """``pid command`` of each process still there, zombies included."""
    segments: list[str] = []
    files: list[str] = []
    """Paths below the play's own temporary folder."""
    gpu_bytes: int = 0
    """GPU memory in use beyond what was in use before the play, where it used a GPU."""
    all_killed: bool = False
    """Whether every party died by SIGKILL: then a leftover may wait for the next start."""
    waited: float = 0.0
    """Seconds between the last exit and this look."""

    def empty(self) -> bool:
        """Whether nothing was left."""
        return not (self.processes or self.segments or self.files or self.gpu_bytes)

    def words(self) -> str:
        """What was left, in one phrase."""
        parts: list[str] = []
        if self.processes:
            parts.append("process " + ", ".join(self.processes))
        if self.segments:
            parts.append("shared-memory segment " + ", ".join(self.segments))
        if self.files:
            parts.append("temporary file " + ", ".join(self.files))
        if self.gpu_bytes:
            parts.append(f"{self.gpu_bytes >> 20} MiB of GPU memory")
        return "; ".join(parts) or "nothing"


def owned_names(history: History) -> set[str]:
    """Shared-memory names that roles created or were seen to map."""
    made = {event.text("name") for event in history.of("segment") if event.text("act") == "create"}
    for event in history.of("mapped"):
        made |= set(event.text("names").split())
    return made - {""}


def look(
    names: Iterable[str], temporary: Path, descendants: Iterable[int], shm: Path = _SHM
) -> Ledger:
    """What of a play is still there now; ``shm``: where its roles' /dev/shm is seen from here."""
    processes: list[str] = []
    for pid in descendants:
        with contextlib.suppress(OSError):
            said = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            command = said.decode(errors="replace").strip()
            processes.append(f"{pid} {command[:80] or 'zombie'}")
    files = [
        str(path.relative_to(temporary)) for path in temporary.rglob("*") if not path.is_dir()
    ] + [
        str(path.relative_to(temporary))
        for path in temporary.rglob("*")
        if path.is_dir() and not any(path.iterdir())
    ]
    return Ledger(
        processes=processes,
        segments=sorted(name for name in names if (shm / name).exists()),
        files=sorted(files),
    )


def remove(left: Ledger, temporary: Path, shm: Path = _SHM) -> None:
    """Remove what a play left, after it was judged."""
    for line in left.processes:
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(line.split()[0]), signal.SIGKILL)
    for name in left.segments:
        (shm / name).unlink(missing_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
