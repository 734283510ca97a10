"""Facts about the machine, so that a noisy run can be recognised as one."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import time
from pathlib import Path

import msgspec

_TICKS = os.sysconf("SC_CLK_TCK")


class Machine(msgspec.Struct, frozen=True):
    """The machine as it stays for a run, and its load when it was read."""

    cores: int
    processor: str
    kernel: str
    python: str
    shm_free: int
    load: tuple[float, float, float]


class Meanwhile(msgspec.Struct, frozen=True):
    """Use of the machine during the run, in cores' worth of processor time (mean over the run)."""

    seconds: float
    ours: float
    others: float
    stolen: float
    load: tuple[float, float, float]


def look() -> Machine:
    """The machine now."""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        processor=_processor(),
        kernel=platform.release(),
        python=platform.python_version(),
        shm_free=shm_free(),
        load=os.getloadavg(),
    )


def shm_free() -> int:
    """Bytes that /dev/shm has left."""
    with contextlib.suppress(OSError):
        room = os.statvfs("/dev/shm")
        return room.f_bavail * room.f_frsize
    return 0


class ProcessorUse:
    """Measures who used the processors, from its creation to ``read``."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._busy, self._stolen = _busy()
        self._ours = _ours()

    def read(self) -> Meanwhile:
        """The use since, once every process of ours has ended and was waited for."""
        seconds = max(1e-9, time.monotonic() - self._start)
        busy, stolen = _busy()
        ours = _ours() - self._ours
        return Meanwhile(
            seconds=seconds,
            ours=ours / seconds,
            others=max(0.0, busy - self._busy - ours) / seconds,
            stolen=(stolen - self._stolen) / seconds,
            load=os.getloadavg(),
        )


def _busy() -> tuple[float, float]:
    """Return the processors' busy seconds, and the seconds stolen by other guests."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return 0.0, 0.0
    user, nice, system, _idle, _io, irq, softirq, stolen = (int(f) / _TICKS for f in fields[:8])
    return user + nice + system + irq + softirq, stolen


def _ours() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()


def processor_seconds(pid: int) -> float:
    """Processor time of every thread of a process so far; nanoseconds count where known."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += _thread_seconds(task)
    return total


def _thread_seconds(task: Path) -> float:
    try:
        return int((task / "schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
