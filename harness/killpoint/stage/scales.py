"""How much memory a process uses now, as the kernel adds it up."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import msgspec

from killpoint.history.log import Log
from killpoint.stage import lookout

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


class Tree(msgspec.Struct, frozen=True):
    """What a process and all below it hold."""

    rss: int
    descriptors: int
    """Of the one that has the most."""


def tree(pid: int) -> Tree:
    """Of those that are there now."""
    pids = lookout.family(pid)
    weights = [weight.rss for each in pids if (weight := weigh(each)) is not None]
    most = 0
    for each in pids:
        with contextlib.suppress(OSError):
            most = max(most, len(list(Path(f"/proc/{each}/fd").iterdir())))
    return Tree(sum(weights), most)


def record_flood(log: Log, role: str, before: Tree, after: Tree) -> None:
    """Log what a flood cost a role and the processes below it."""
    grown = after.rss - before.rss
    log.write("flood-cost", target=role, grown=grown, descriptors=after.descriptors)


def record(log: Log, role: str, pid: int) -> None:
    """Log a role's weight."""
    weight = weigh(pid)
    if weight is not None:
        log.write("weight", target=role, rss=weight.rss, pss=weight.pss)
