"""How much memory a process uses now, as the kernel adds it up."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import msgspec

from killpoint.history.log import Log

_FIELD = re.compile(r"^(Rss|Pss):\s+(\d+) kB$", re.M)


class Weight(msgspec.Struct, frozen=True):
    """Bytes in memory, and the process's proportional share of them."""

    rss: int
    pss: int


def weigh(pid: int) -> Weight | None:
    """The process's weight; None if it is gone."""
    with contextlib.suppress(OSError):
        found = dict(_FIELD.findall(Path(f"/proc/{pid}/smaps_rollup").read_text()))
        if "Rss" in found:
            return Weight(int(found["Rss"]) * 1024, int(found.get("Pss", 0)) * 1024)
    return None


def record(log: Log, role: str, pid: int) -> None:
    """Log a role's weight."""
    weight = weigh(pid)
    if weight is not None:
        log.write("weight", target=role, rss=weight.rss, pss=weight.pss)
